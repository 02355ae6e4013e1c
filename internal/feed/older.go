package feed

import (
	"bytes"
	"cmp"
)

// Older reports whether version a is before version b in the order of [Compare].
func Older(a, b []byte) bool { return Compare(a, b) < 0 }

// Compare compares two texts. Numbers, in any spelling, come before other texts, which are compared byte by byte. The
// order is total.
func Compare(a, b []byte) int {
	if isCount(a) && isCount(b) {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return bytes.Compare(a, b)
	}
	x, xok := AsNumber(a)
	y, yok := AsNumber(b)
	switch {
	case xok && yok:
		return compareDecimals(x, y)
	case xok:
		return -1
	case yok:
		return 1
	}
	return bytes.Compare(a, b)
}

// isCount reports whether text has only digits, and no leading zero.
func isCount(text []byte) bool {
	for _, c := range text {
		if !isDigit(c) {
			return false
		}
	}
	return len(text) == 1 || len(text) > 1 && text[0] != '0'
}

// AsNumber returns a text that [Compare] treats as a number in JSON's form, without a plus sign or leading zeros.
func AsNumber(text []byte) (number []byte, ok bool) {
	number, negative := bytes.CutPrefix(text, []byte("-"))
	if !negative {
		number = bytes.TrimPrefix(text, []byte("+"))
	}
	for len(number) > 1 && number[0] == '0' && isDigit(number[1]) {
		number = number[1:]
	}
	if len(number) == 0 || !isDigit(number[0]) {
		return nil, false
	}
	if negative {
		number = append([]byte("-"), number...)
	}
	_, ok = IsNumber(number)
	return number, ok
}

func compareDecimals(a, b []byte) int {
	ad, ae := decimal(a)
	bd, be := decimal(b)
	as, bs := sign(a, ad), sign(b, bd)
	if as != bs || as == 0 {
		return cmp.Compare(as, bs)
	}
	if c := cmp.Compare(ae, be); c != 0 {
		return as * c
	}
	return as * bytes.Compare(ad, bd)
}

// sign returns the sign of a number with these digits.
func sign(number, digits []byte) int {
	switch {
	case len(digits) == 0:
		return 0
	case number[0] == '-':
		return -1
	}
	return 1
}
