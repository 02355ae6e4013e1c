package feed

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"time"
	"unicode/utf16"
	"unicode/utf8"
)

// AppendText appends a value as text: a string without quotes and escapes, anything else unchanged.
func AppendText(dst, value []byte, k Kind) []byte {
	if k == String {
		return AppendUnquoted(dst, value[1:len(value)-1])
	}
	return append(dst, value...)
}

// Text is AppendText without a copy if the value has no escapes: the result may point into value or scratch.
func Text(scratch, value []byte, k Kind) []byte {
	if k != String {
		return value
	}
	return Unquoted(scratch, value[1:len(value)-1])
}

// Clip returns a text for messages to users, shortened if it is long.
func Clip(text []byte) string {
	const most = 100
	if len(text) <= most {
		return string(text)
	}
	n := most - 3
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return string(text[:n]) + "..."
}

// An Unquoter holds the memory for texts of values with escapes.
type Unquoter struct{ text []byte }

// Text returns a value as text. It is valid until the next call.
func (u *Unquoter) Text(v *Field) []byte {
	if v.Kind != String {
		return v.Value
	}
	inner := v.Value[1 : len(v.Value)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return inner
	}
	u.text = AppendUnquoted(u.text[:0], inner)
	return u.text
}

// Unquoted returns the inside of a scanned string without escapes. It points into s, or into scratch if it fits
// there.
func Unquoted(scratch, s []byte) []byte {
	if bytes.IndexByte(s, '\\') < 0 {
		return s
	}
	return AppendUnquoted(scratch[:0], s)
}

// AppendString appends a text as a JSON string.
func AppendString(dst []byte, text string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // encoding a string never fails
	return append(dst, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
}

// AppendUnquoted appends the inside of a scanned string without escapes.
func AppendUnquoted(dst, s []byte) []byte {
	for {
		i := bytes.IndexByte(s, '\\')
		if i < 0 {
			return append(dst, s...)
		}
		dst = append(dst, s[:i]...)
		c := s[i+1]
		s = s[i+2:]
		switch c {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r, _ := hex4(s, 0)
			s = s[4:]
			if utf16.IsSurrogate(r) {
				lo, _ := hex4(s, 2)
				r = utf16.DecodeRune(r, lo)
				s = s[6:]
			}
			dst = utf8.AppendRune(dst, r)
		default:
			dst = append(dst, c)
		}
	}
}

// JSONNull is JSON null as a value of a JSON column. The leading blank distinguishes it from NULL.
var JSONNull = []byte(" null")

// KindOf returns the kind of a scanned raw value.
func KindOf(value []byte) Kind {
	switch value[0] {
	case 'n':
		return Null
	case 't', 'f':
		return Bool
	case '"':
		return String
	case '{', '[', ' ':
		return JSON
	}
	if bytes.ContainsAny(value, ".eE") {
		return Number
	}
	return Int
}

// TextOf returns the text of a scanned raw value, nil for none.
func TextOf(raw []byte) []byte {
	if raw == nil {
		return nil
	}
	return Text(nil, raw, KindOf(raw))
}

// IsNumber reports whether text is a JSON number of at most 4096 characters, and returns its kind.
func IsNumber(text []byte) (Kind, bool) {
	if len(text) == 0 || text[0] != '-' && !isDigit(text[0]) {
		return Null, false
	}
	s := Scanner{line: text}
	end, k, err := s.number(0)
	return k, err == nil && end == len(text)
}

// IsObject reports whether text is a JSON object that would be valid in a line.
func IsObject(text []byte) bool {
	s := Scanner{line: text}
	i := s.space(0)
	if i == len(text) || text[i] != '{' {
		return false
	}
	end, err := s.nested(i)
	return err == nil && s.end(end) == nil
}

// ParseInt parses an integer: digits, or a number with an integral value (1.0, 1e3). ok is false beyond 64 bits and
// for fractions. "-0" is not an integer, because its sign would be lost.
func ParseInt(number []byte, k Kind) (n int64, ok bool) {
	if k == Int {
		return parseDigits(number)
	}
	f, err := strconv.ParseFloat(string(number), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 || f == 0 && math.Signbit(f) {
		return 0, false
	}
	return int64(f), exactly(number, f)
}

func parseDigits(b []byte) (n int64, ok bool) {
	neg := b[0] == '-'
	if neg {
		b = b[1:]
	}
	if len(b) > 19 {
		return 0, false
	}
	var u uint64
	for _, c := range b {
		u = u*10 + uint64(c-'0')
	}
	switch {
	case neg && u == 0:
		return 0, false
	case neg:
		return -int64(u), u <= 1<<63
	}
	return int64(u), u < 1<<63
}

// ParseReal parses a number as the nearest double. ok is false outside a double's range, at either end. exact reports
// whether the double prints as the same number, so no digit is lost.
func ParseReal(number []byte) (f float64, exact, ok bool) {
	f, err := strconv.ParseFloat(string(number), 64)
	if err != nil || f == 0 && !IsZero(number) {
		return 0, false, false
	}
	// Fifteen digits survive conversion to a double and back (DBL_DIG), if the exponent is not extreme.
	if len(number) <= 15 && math.Abs(f) > 1e-300 {
		return f, true, true
	}
	return f, exactly(number, f), true
}

// AppendReal appends the text of a double: the fewest digits that parse as the same double, in Postgres' notation.
// weir always converts doubles to text this way.
func AppendReal(dst []byte, f float64) []byte {
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e15) {
		return strconv.AppendFloat(dst, f, 'e', -1, 64)
	}
	return strconv.AppendFloat(dst, f, 'f', -1, 64)
}

// IsZero reports whether a JSON number is a zero as written, in any spelling.
func IsZero(number []byte) bool {
	if i := bytes.IndexAny(number, "eE"); i >= 0 {
		number = number[:i]
	}
	return !bytes.ContainsAny(number, "123456789")
}

// exactly reports whether f, printed with the fewest digits that identify it, is the same decimal as number.
func exactly(number []byte, f float64) bool {
	var text, a, b [32]byte
	d, _ := ReadDecimal(a[:0], number)
	e, _ := ReadDecimal(b[:0], strconv.AppendFloat(text[:0], f, 'e', -1, 64))
	return d.Compare(&e) == 0
}

// Seconds parses a time, in seconds since 1970 or as RFC 3339, and returns seconds since 1970; NaN if text is
// neither.
func Seconds(text string) float64 {
	if s, err := strconv.ParseFloat(text, 64); err == nil {
		return s
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return float64(t.UnixNano()) / 1e9
	}
	return math.NaN()
}
