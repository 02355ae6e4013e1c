package merge

import (
	"bytes"
	"strconv"
)

// A sum adds numbers of at most maxWhole digits before the point and maxFraction behind it, so 1e1000000 takes no memory. The
// sum of as many as a feed can have takes maxSum before the point, which is what Postgres' numeric takes.
const (
	maxSum      = 131072
	maxWhole    = maxSum - 20
	maxFraction = 16383
)

// IsSummand reports whether a sum adds a text: a number as JSON writes it, of any length, that is not too large.
func IsSummand(text []byte) bool {
	if _, ok := shortInt(text); ok {
		return true
	}
	n, ok := parse(text)
	return ok && len(n.digits)-n.fraction <= maxWhole
}

// AppendSum appends the sum of two texts, to the last digit and in the one spelling of [AppendNumber]. ok is false if one
// of them is no summand.
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

// AppendNumber appends the one spelling that a sum has for a number: with all of its digits and none that it does not need,
// without an exponent. Postgres' trim_scale writes it, too.
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

// shortInt reads an integer of so few digits that two of them have a sum of 64 bits.
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

// A number is a decimal: its digits, of which so many are behind the point; these may be more than there are digits. The first
// digit is never a zero.
type number struct {
	negative bool
	digits   []byte
	fraction int
}

// parse reads a summand, or a sum of some.
func parse(text []byte) (n number, ok bool) {
	rest := text
	if len(rest) > 0 && rest[0] == '-' {
		n.negative, rest = true, rest[1:]
	}
	whole, rest := cutDigits(rest)
	if len(whole) == 0 || len(whole) > 1 && whole[0] == '0' {
		return n, false
	}
	var fraction []byte
	if len(rest) > 0 && rest[0] == '.' {
		if fraction, rest = cutDigits(rest[1:]); len(fraction) == 0 {
			return n, false
		}
	}
	exponent := 0
	if len(rest) > 0 && rest[0]|0x20 == 'e' {
		digits, small := rest[1:], false
		if len(digits) > 0 && (digits[0] == '+' || digits[0] == '-') {
			small, digits = digits[0] == '-', digits[1:]
		}
		if digits, rest = cutDigits(digits); len(digits) == 0 {
			return n, false
		}
		exponent = readExponent(digits)
		if small {
			exponent = -exponent
		}
	}
	if len(rest) > 0 {
		return n, false
	}
	all := append(append(make([]byte, 0, len(whole)+len(fraction)), whole...), fraction...)
	n.digits, n.fraction = all, len(fraction)-exponent
	if n.trim(); len(n.digits) == 0 {
		return number{}, true
	}
	if n.fraction > maxFraction || len(n.digits)-n.fraction > maxSum {
		return n, false
	}
	n.pad(max(0, n.fraction))
	return n, true
}

// cutDigits cuts the digits off that a text begins with.
func cutDigits(text []byte) (digits, rest []byte) {
	i := 0
	for i < len(text) && '0' <= text[i] && text[i] <= '9' {
		i++
	}
	return text[:i], text[i:]
}

// readExponent returns the number of some digits, or one past all bounds.
func readExponent(digits []byte) int {
	const most = 1 << 30
	n, err := strconv.Atoi(string(digits))
	if err != nil {
		return most
	}
	return min(n, most)
}

// trim takes needless zeros off.
func (n *number) trim() {
	n.digits = bytes.TrimLeft(n.digits, "0")
	trimmed := bytes.TrimRight(n.digits, "0")
	n.fraction -= len(n.digits) - len(trimmed)
	if n.digits = trimmed; len(trimmed) == 0 {
		n.negative, n.fraction = false, 0
	}
}

// pad appends zeros so that a number of digits is behind the point.
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

// add returns the sum of two numbers.
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
