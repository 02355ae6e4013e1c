package feed

import (
	"bytes"
	"cmp"
)

// Older reports whether version a is before version b in the order of [Compare].
func Older(a, b []byte) bool { return Compare(a, b) < 0 }

// Compare compares two texts, as versions are compared: numbers in any spelling first, then RFC 3339 times, then other
// texts. Times without a zone come before those with one, which are compared as points in time; a leap second is the
// second after it. Other texts are compared byte by byte. The order is total.
func Compare(a, b []byte) int {
	if isCount(a) && isCount(b) {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return bytes.Compare(a, b)
	}
	if x, y, both, order := each(a, b, readNumber); both {
		return x.Compare(&y)
	} else if order != 0 {
		return order
	}
	if x, y, both, order := each(a, b, readInstant); both {
		return compareInstants(x, y)
	} else if order != 0 {
		return order
	}
	return bytes.Compare(a, b)
}

// each reads two texts. If only one can be read, it comes before the other in the order.
func each[T any](a, b []byte, read func(text []byte) (T, bool)) (x, y T, both bool, order int) {
	x, xok := read(a)
	y, yok := read(b)
	switch {
	case xok && !yok:
		order = -1
	case yok && !xok:
		order = 1
	}
	return x, y, xok && yok, order
}

func compareInstants(a, b instant) int {
	switch {
	case a.zoned && !b.zoned:
		return 1
	case b.zoned && !a.zoned:
		return -1
	}
	return cmp.Or(cmp.Compare(a.seconds, b.seconds), bytes.Compare(a.fraction, b.fraction))
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

func readNumber(text []byte) (d Decimal, ok bool) {
	number, ok := AsNumber(text)
	if !ok {
		return d, false
	}
	return ReadDecimal(nil, number)
}
