package merge

import (
	"bytes"
	"strconv"

	"github.com/weirsync/weir/internal/feed"
)

// A sum adds numbers with at most maxWhole digits before the point and maxFraction after it. So 1e1000000 cannot
// exhaust memory, and no feed is long enough for a sum of more than maxSum digits before the point, which Postgres'
// numeric holds.
const (
	maxSum      = 131072
	maxWhole    = maxSum - 20
	maxFraction = 16383
)

// IsSummand reports whether a sum accepts a text: a JSON number of any length that is not too large.
func IsSummand(text []byte) bool {
	if _, ok := shortInt(text); ok {
		return true
	}
	n, ok := parse(text)
	return ok && len(n.digits)-n.fraction <= maxWhole
}

// AppendSum appends the exact sum of two texts in the form of [AppendNumber]. ok is false if one is not a summand.
func AppendSum(dst, a, b []byte) (_ []byte, ok bool) {
	if x, ok := shortInt(a); ok {
		if y, ok := shortInt(b); ok {
			return strconv.AppendInt(dst, x+y, 10), true
		}
	}
	x, xok := parse(a)
	y, yok := parse(b)
	if !xok || !yok {
		return dst, false
	}
	return x.add(y).append(dst), true
}

// AppendNumber appends a number in canonical form, as Postgres' trim_scale writes it: all digits, no trailing zeros in
// the fraction, no exponent.
func AppendNumber(dst, text []byte) (_ []byte, ok bool) {
	if n, ok := shortInt(text); ok {
		return strconv.AppendInt(dst, n, 10), true
	}
	n, ok := parse(text)
	if !ok {
		return dst, false
	}
	return n.append(dst), true
}

// shortInt reads an integer with so few digits that the sum of two fits 64 bits.
func shortInt(text []byte) (n int64, ok bool) {
	digits, negative := text, false
	if len(text) > 0 && text[0] == '-' {
		digits, negative = text[1:], true
	}
	if len(digits) == 0 || len(digits) > 18 || len(digits) > 1 && digits[0] == '0' {
		return 0, false
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	if negative {
		n = -n
	}
	return n, true
}

// A number is a decimal. fraction is the number of digits after the point, and may exceed len(digits). The first
// digit is never zero.
type number struct {
	negative bool
	digits   []byte
	fraction int
}

// parse reads a summand, or a sum of summands.
func parse(text []byte) (n number, ok bool) {
	d, ok := feed.ReadDecimal(make([]byte, 0, len(text)), text)
	if !ok || !isJSON(text) || d.Fraction() > maxFraction || d.Point > maxSum {
		return n, false
	}
	if len(d.Digits) == 0 {
		return n, true
	}
	n = number{d.Negative, d.Digits, len(d.Digits) - d.Point}
	n.pad(max(0, n.fraction))
	return n, true
}

// isJSON reports whether a text that is a decimal is a JSON number too.
func isJSON(text []byte) bool {
	digits := bytes.TrimPrefix(text, []byte("-"))
	return digits[0] != '+' && (digits[0] != '0' || len(digits) == 1 || digits[1] < '0' || digits[1] > '9')
}

// trim removes leading and trailing zeros.
func (n *number) trim() {
	n.digits = bytes.TrimLeft(n.digits, "0")
	trimmed := bytes.TrimRight(n.digits, "0")
	n.fraction -= len(n.digits) - len(trimmed)
	if n.digits = trimmed; len(trimmed) == 0 {
		n.negative, n.fraction = false, 0
	}
}

// pad appends zeros until fraction digits follow the point.
func (n *number) pad(fraction int) {
	if more := fraction - n.fraction; more > 0 && len(n.digits) > 0 {
		n.digits = append(n.digits[:len(n.digits):len(n.digits)], bytes.Repeat([]byte("0"), more)...)
	}
	n.fraction = max(n.fraction, fraction)
}

func (n number) append(dst []byte) []byte {
	if n.negative {
		dst = append(dst, '-')
	}
	whole := len(n.digits) - n.fraction
	if whole <= 0 {
		dst = append(dst, '0')
	} else {
		dst = append(dst, n.digits[:whole]...)
	}
	if n.fraction == 0 {
		return dst
	}
	dst = append(dst, '.')
	for range -whole {
		dst = append(dst, '0')
	}
	return append(dst, n.digits[max(0, whole):]...)
}

func (n number) add(m number) number {
	fraction := max(n.fraction, m.fraction)
	n.pad(fraction)
	m.pad(fraction)
	if len(n.digits) < len(m.digits) || len(n.digits) == len(m.digits) && bytes.Compare(n.digits, m.digits) < 0 {
		n, m = m, n
	}
	sum := number{negative: n.negative, digits: make([]byte, len(n.digits)+1), fraction: fraction}
	carry := 0
	for i := range sum.digits { // from the last one
		d := carry
		if i < len(n.digits) {
			d += int(n.digits[len(n.digits)-1-i] - '0')
		}
		if i < len(m.digits) {
			if other := int(m.digits[len(m.digits)-1-i] - '0'); n.negative == m.negative {
				d += other
			} else {
				d -= other
			}
		}
		if carry = 0; d < 0 {
			carry = -1
		} else if d > 9 {
			carry = 1
		}
		sum.digits[len(sum.digits)-1-i] = byte(d-10*carry) + '0'
	}
	sum.trim()
	sum.pad(max(0, sum.fraction))
	return sum
}
