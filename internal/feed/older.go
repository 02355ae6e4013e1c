package feed

import (
	"bytes"
	"cmp"
)

// Older reports whether the version a is before b, in the order of [Compare].
func Older(a, b []byte) bool { return Compare(a, b) < 0 }

// Compare compares two texts. Numbers, whatever their spelling, come before other texts, which are compared byte by
// byte: any two texts have an order, and it is the same for every set of them.
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

// isCount reports whether text is nothing but digits, and no more than it needs.
func isCount(text []byte) bool {
	for _, c := range text {
		if !isDigit(c) {
			return false
		}
	}
	return len(text) == 1 || len(text) > 1 && text[0] != '0'
}

// AsNumber returns a text that [Compare] takes for a number as JSON would have it, which allows neither a plus sign nor
// zeros in front.
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

// sign returns that of a number with such digits.
func sign(number, digits []byte) int {
	switch {
	case len(digits) == 0:
		return 0
	case number[0] == '-':
		return -1
	}
	return 1
}
