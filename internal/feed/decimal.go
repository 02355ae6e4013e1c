package feed

import (
	"bytes"
	"cmp"
	"strconv"
)

// A Decimal is a number: 0.DIGITS times ten to the power of Point. The digits have no zero at either end. Zero has no
// digits and no sign.
type Decimal struct {
	Negative bool
	Digits   []byte
	Point    int
}

// maxExponent is the limit that larger exponents are reduced to.
const maxExponent = 1 << 30

// ReadDecimal reads a JSON number of any length. It may also have a plus sign or leading zeros. The digits are appended
// to buf, which the result then shares.
func ReadDecimal(buf, text []byte) (d Decimal, ok bool) {
	if len(text) > 0 && (text[0] == '-' || text[0] == '+') {
		d.Negative, text = text[0] == '-', text[1:]
	}
	whole, rest := cutDigits(text)
	if len(whole) == 0 {
		return d, false
	}
	d.Digits, d.Point = append(buf, whole...), len(whole)
	if len(rest) > 0 && rest[0] == '.' {
		var fraction []byte
		if fraction, rest = cutDigits(rest[1:]); len(fraction) == 0 {
			return d, false
		}
		d.Digits = append(d.Digits, fraction...)
	}
	if len(rest) > 0 {
		exponent, ok := readExponent(rest)
		if !ok {
			return d, false
		}
		d.Point += exponent
	}
	d.Digits = d.Digits[len(buf):]
	for len(d.Digits) > 0 && d.Digits[0] == '0' {
		d.Digits = d.Digits[1:]
		d.Point--
	}
	if d.Digits = bytes.TrimRight(d.Digits, "0"); len(d.Digits) == 0 {
		return Decimal{}, true
	}
	return d, true
}

// cutDigits splits a text after its leading digits.
func cutDigits(text []byte) (digits, rest []byte) {
	i := 0
	for i < len(text) && isDigit(text[i]) {
		i++
	}
	return text[:i], text[i:]
}

// readExponent reads e5, E+5 or e-5.
func readExponent(text []byte) (n int, ok bool) {
	if text[0]|0x20 != 'e' {
		return 0, false
	}
	text = text[1:]
	negative := len(text) > 0 && text[0] == '-'
	if len(text) > 0 && (negative || text[0] == '+') {
		text = text[1:]
	}
	digits, rest := cutDigits(text)
	for _, c := range digits {
		n = min(10*n+int(c-'0'), maxExponent)
	}
	if negative {
		n = -n
	}
	return n, len(digits) > 0 && len(rest) == 0
}

// Fraction returns the number of digits after the point.
func (d *Decimal) Fraction() int { return max(0, len(d.Digits)-d.Point) }

// Int returns the number if it is an integer of 64 bits.
func (d *Decimal) Int() (n int64, ok bool) {
	if d.Fraction() > 0 || d.Point > 19 {
		return 0, false
	}
	var u uint64
	for i := range d.Point {
		u *= 10
		if i < len(d.Digits) {
			u += uint64(d.Digits[i] - '0')
		}
	}
	if d.Negative {
		return -int64(u), u <= 1<<63
	}
	return int64(u), u < 1<<63
}

// Compare returns -1, 0 or 1 if d is less than, equal to or greater than e.
func (d *Decimal) Compare(e *Decimal) int {
	sign := d.sign()
	if c := cmp.Compare(sign, e.sign()); c != 0 {
		return c
	}
	return sign * cmp.Or(cmp.Compare(d.Point, e.Point), bytes.Compare(d.Digits, e.Digits))
}

func (d *Decimal) sign() int {
	switch {
	case d.Negative:
		return -1
	case len(d.Digits) > 0:
		return 1
	}
	return 0
}

// AppendDecimal appends one spelling for all spellings of a JSON number. An integer of 64 bits is spelled as its
// digits.
func AppendDecimal(dst, number []byte) []byte {
	var buf [32]byte
	d, _ := ReadDecimal(buf[:0], number)
	if len(d.Digits) == 0 {
		return append(dst, '0')
	}
	if d.Negative {
		dst = append(dst, '-')
	}
	dst = append(dst, d.Digits...)
	if zeros := d.Point - len(d.Digits); zeros >= 0 && d.Point <= 19 {
		return append(dst, "0000000000000000000"[:zeros]...)
	}
	dst = append(dst, 'e')
	return strconv.AppendInt(dst, int64(d.Point), 10)
}
