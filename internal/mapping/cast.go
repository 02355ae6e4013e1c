package mapping

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/schema"
)

// A cast is how the values of a column are read, and what the column takes.
type cast struct {
	Type
	asItIs uint8 // the kinds of values that stay as they are, a bit for each
	reader func(s *Scratch, v *feed.Field, c *cast) (feed.Field, string)

	// textTime asks for points in time as SQLite's functions write them, in UTC:
	// 2020-05-15 13:30:00. Else they are as RFC 3339 has them.
	textTime bool
	fraction int  // digits of a second that the column holds
	shift    int  // how many digits of a number of a point in time are behind that of its seconds
	utc      bool // a point in time without an offset is in UTC
	scale    int  // digits of a Base64Number after the point, or noScale
	// textJSON tells that the column is no JSON column of the database's, and gets strings of
	// JSON as JSON.
	textJSON bool
}

const anyKind = 1<<feed.Null | 1<<feed.Bool | 1<<feed.Int | 1<<feed.Number | 1<<feed.String | 1<<feed.JSON

// newCast returns the cast of a type, for a database without types of its own for times and JSON
// or one that has them.
func newCast(t Type, textTypes bool) cast {
	c := cast{Type: t, asItIs: 1 << feed.Null, textTime: textTypes, textJSON: textTypes, fraction: 6}
	if textTypes {
		c.fraction = maxSeconds
	}
	switch t.Kind {
	case Text:
		c.asItIs, c.reader = c.asItIs|1<<feed.String, (*Scratch).readText
	case Integer:
		c.reader = (*Scratch).readInteger
	case Real:
		c.reader = (*Scratch).readReal
	case Numeric:
		c.reader = (*Scratch).readNumeric
	case Base64Number:
		if c.reader, c.scale = (*Scratch).readBase64Number, noScale; t.Precision > 0 {
			c.scale = t.Scale
		}
	case Boolean:
		c.asItIs, c.reader = c.asItIs|1<<feed.Bool, (*Scratch).readBoolean
	case JSON:
		c.asItIs, c.reader = c.asItIs|1<<feed.JSON, (*Scratch).readJSON
	case JSONText:
		c.asItIs, c.reader = c.asItIs|1<<feed.JSON, (*Scratch).readJSONText
	case Timestamp:
		c.reader = (*Scratch).readTime
	case TimestampUTC:
		c.utc, c.reader = true, (*Scratch).readTime
	case TimestampMs:
		c.shift, c.reader = 3, (*Scratch).readTime
	case TimestampUs:
		c.shift, c.reader = 6, (*Scratch).readTime
	case TimestampNs:
		c.shift, c.reader = 9, (*Scratch).readTime
	case Date:
		c.reader = (*Scratch).readDate
	case DateDays:
		c.reader = (*Scratch).readDays
	case TimeMs:
		c.shift, c.reader = 3, (*Scratch).readTimeOfDay
	case TimeUs:
		c.shift, c.reader = 6, (*Scratch).readTimeOfDay
	case TimeNs:
		c.shift, c.reader = 9, (*Scratch).readTimeOfDay
	case UUID:
		c.reader = (*Scratch).readUUID
	case Bytes:
		c.reader = (*Scratch).readBytes
	default:
		c.asItIs = anyKind
	}
	return c
}

// maxSeconds is how many digits of a second a text of weir's has at most.
const maxSeconds = 1000

// read returns a value in the one form that a column of the type takes, or why it has none.
// Null stays null.
func (s *Scratch) read(v *feed.Field, c *cast) (feed.Field, string) {
	switch {
	case c.asItIs&(1<<v.Kind) != 0:
		return *v, ""
	case v.Kind == feed.JSON && c.Kind != Text && c.Kind != Base64Number:
		return *v, "an object or array is not " + article(c.Type)
	}
	return c.reader(s, v, c)
}

// article is a type for people.
func article(t Type) string {
	switch t.Kind {
	case Integer:
		return "an integer"
	case Real:
		return "a real"
	case UUID:
		return "a UUID"
	case Base64Number:
		return "a number in base64"
	case JSON:
		return "JSON"
	case JSONText:
		return "JSON in a text"
	case Bytes:
		return "bytes in base64"
	case Date, DateDays:
		return "a date"
	case Timestamp, TimestampUTC, TimestampMs, TimestampUs, TimestampNs:
		return "a timestamp"
	case TimeMs, TimeUs, TimeNs:
		return "a time of day"
	}
	return "a " + string(t.Kind)
}

// made is a value that s.bytes has from an index on.
func (s *Scratch) made(from int, k feed.Kind) feed.Field {
	return feed.Field{Value: s.bytes[from:len(s.bytes):len(s.bytes)], Kind: k}
}

func (s *Scratch) readText(v *feed.Field, _ *cast) (feed.Field, string) {
	from := len(s.bytes)
	s.bytes = appendQuoted(s.bytes, v.Value)
	return s.made(from, feed.String), ""
}

// appendQuoted appends raw JSON as a JSON string.
func appendQuoted(dst, raw []byte) []byte {
	dst = append(dst, '"')
	for _, c := range raw {
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\t':
			dst = append(dst, '\\', 't')
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}

func (s *Scratch) readJSON(v *feed.Field, c *cast) (feed.Field, string) {
	switch {
	case v.Kind == feed.Number:
		if d, _ := s.number(v.Value); d.point > schema.MaxWhole || len(d.digits)-d.point > schema.MaxFraction {
			return *v, "it has more digits than a database's numbers"
		}
	case v.Kind == feed.String && c.textJSON:
		from := len(s.bytes)
		s.bytes = appendQuoted(s.bytes, v.Value)
		return s.made(from, feed.String), ""
	}
	return *v, ""
}

// A decimal is a number: 0.DIGITS times ten to the power of point. The digits have no zero at
// either end, and zero has none.
type decimal struct {
	negative bool
	digits   []byte
	point    int
}

const (
	maxNumber   = 4096 // characters of a number
	maxExponent = 1 << 30
)

// number reads a number as JSON has it, or with a plus sign or zeros in front. It is good until the
// next call.
func (s *Scratch) number(text []byte) (d decimal, ok bool) {
	if len(text) > 0 && (text[0] == '-' || text[0] == '+') {
		d.negative, text = text[0] == '-', text[1:]
	}
	if len(text) > maxNumber {
		return d, false
	}
	s.digits = s.digits[:0]
	whole, at := 0, 0
	for ; at < len(text) && isDigit(text[at]); at++ {
		whole++
		s.digits = append(s.digits, text[at])
	}
	if whole == 0 {
		return d, false
	}
	if at < len(text) && text[at] == '.' {
		from := at + 1
		for at++; at < len(text) && isDigit(text[at]); at++ {
			s.digits = append(s.digits, text[at])
		}
		if at == from {
			return d, false
		}
	}
	if d.point = whole; at < len(text) {
		if text[at] != 'e' && text[at] != 'E' {
			return d, false
		}
		exponent, ok := readExponent(text[at+1:])
		if !ok {
			return d, false
		}
		d.point += exponent
	}
	d.digits = s.digits
	for len(d.digits) > 0 && d.digits[0] == '0' {
		d.digits = d.digits[1:]
		d.point--
	}
	if d.digits = bytes.TrimRight(d.digits, "0"); len(d.digits) == 0 {
		return decimal{}, true
	}
	return d, true
}

func readExponent(text []byte) (n int, ok bool) {
	negative := false
	if len(text) > 0 && (text[0] == '-' || text[0] == '+') {
		negative, text = text[0] == '-', text[1:]
	}
	for _, c := range text {
		if !isDigit(c) {
			return 0, false
		}
		n = min(10*n+int(c-'0'), maxExponent)
	}
	if negative {
		n = -n
	}
	return n, len(text) > 0
}

// isCount reports whether text is a whole number of few digits, and spelled as an integer is.
func isCount(text []byte) bool {
	for _, c := range text {
		if !isDigit(c) {
			return false
		}
	}
	return len(text) == 1 || 1 < len(text) && len(text) <= 18 && text[0] != '0'
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// integer returns a number that is whole and has 64 bits at most.
func (d *decimal) integer() (n int64, ok bool) {
	if len(d.digits) > d.point || d.point > 19 {
		return 0, len(d.digits) == 0
	}
	var u uint64
	for i := range d.point {
		u *= 10
		if i < len(d.digits) {
			u += uint64(d.digits[i] - '0')
		}
	}
	if d.negative {
		return -int64(u), u <= 1<<63
	}
	return int64(u), u < 1<<63
}

func (s *Scratch) readInteger(v *feed.Field, _ *cast) (feed.Field, string) {
	switch v.Kind {
	case feed.Int:
		if _, ok := feed.ParseInt(v.Value, feed.Int); ok {
			return *v, ""
		}
	case feed.String:
		if text := v.Value[1 : len(v.Value)-1]; isCount(text) {
			return feed.Field{Value: text[:len(text):len(text)], Kind: feed.Int}, ""
		}
	}
	n, why := s.integer(v)
	if why != "" {
		return *v, why
	}
	from := len(s.bytes)
	s.bytes = strconv.AppendInt(s.bytes, n, 10)
	return s.made(from, feed.Int), ""
}

// integer is a value that is a whole number of 64 bits, as a number or as text.
func (s *Scratch) integer(v *feed.Field) (int64, string) {
	if v.Kind == feed.Bool {
		return 0, "it is not an integer"
	}
	d, ok := s.number(s.textOf(v))
	if !ok {
		return 0, "it is not an integer"
	}
	n, ok := d.integer()
	switch {
	case ok:
		return n, ""
	case len(d.digits) > d.point:
		return 0, "it has a fraction, which an integer has not"
	}
	return 0, "it has more than the 64 bits of an integer"
}

func (s *Scratch) readReal(v *feed.Field, _ *cast) (feed.Field, string) {
	if v.Kind == feed.Bool {
		return *v, "it is not a number"
	}
	text := s.textOf(v)
	if _, ok := s.number(text); !ok {
		return *v, "it is not a number"
	}
	f, exact, ok := feed.ParseReal(bytes.TrimPrefix(text, []byte("+")))
	switch {
	case !ok:
		return *v, "it is past what a real holds"
	case !exact:
		return *v, "it has more digits than a real holds (numeric holds them)"
	case v.Kind != feed.String:
		return *v, ""
	}
	from := len(s.bytes)
	s.bytes = feed.AppendReal(s.bytes, f)
	return s.made(from, feed.KindOf(s.bytes[from:])), ""
}

func (s *Scratch) readNumeric(v *feed.Field, c *cast) (feed.Field, string) {
	if v.Kind == feed.Bool {
		return *v, "it is not a number"
	}
	text := s.textOf(v)
	d, ok := s.number(text)
	if !ok {
		return *v, "it is not a number"
	}
	whole, fraction := schema.MaxWhole, schema.MaxFraction
	if c.Precision > 0 {
		whole, fraction = c.Precision-c.Scale, c.Scale
	}
	switch {
	case d.point > whole:
		return *v, fmt.Sprintf("it has more than %s before the point", digits(whole))
	case len(d.digits)-d.point > fraction && len(d.digits) > 0:
		return *v, fmt.Sprintf("it has more than %s after the point", digits(fraction))
	case v.Kind != feed.String:
		return *v, ""
	}
	from := len(s.bytes)
	if d.negative {
		s.bytes = append(s.bytes, '-')
	}
	s.bytes = append(s.bytes, plain(text)...)
	return s.made(from, feed.KindOf(s.bytes[from:])), ""
}

func digits(n int) string {
	if n == 1 {
		return "1 digit"
	}
	return fmt.Sprintf("%d digits", n)
}

// plain is the text of a number without its sign and the zeros that JSON does not allow.
func plain(text []byte) []byte {
	text = bytes.TrimLeft(text, "+-")
	for len(text) > 1 && text[0] == '0' && isDigit(text[1]) {
		text = text[1:]
	}
	return text
}

var literals = map[bool][]byte{true: []byte("true"), false: []byte("false")}

func (s *Scratch) readBoolean(v *feed.Field, _ *cast) (feed.Field, string) {
	switch string(s.textOf(v)) {
	case "true", "1":
		return feed.Field{Value: literals[true], Kind: feed.Bool}, ""
	case "false", "0":
		return feed.Field{Value: literals[false], Kind: feed.Bool}, ""
	}
	return *v, "it is not true, false, 1 or 0"
}

func (s *Scratch) readUUID(v *feed.Field, _ *cast) (feed.Field, string) {
	if v.Kind != feed.String {
		return *v, "it is not a UUID"
	}
	text := s.textOf(v)
	hexes, ok := schema.AppendUUID(s.digits[:0], text)
	if s.digits = hexes; !ok {
		return *v, "it is not a UUID"
	}
	from := len(s.bytes)
	for i, c := range hexes {
		switch i {
		case 0:
			s.bytes = append(s.bytes, '"')
		case 8, 12, 16, 20:
			s.bytes = append(s.bytes, '-')
		}
		s.bytes = append(s.bytes, c)
	}
	s.bytes = append(s.bytes, '"')
	return s.made(from, feed.String), ""
}

func (s *Scratch) readBytes(v *feed.Field, _ *cast) (feed.Field, string) {
	if !s.decode(v) {
		return *v, notBase64
	}
	from := len(s.bytes)
	s.bytes = append(s.bytes, `"\\x`...)
	s.bytes = append(hex.AppendEncode(s.bytes, s.digits), '"')
	return s.made(from, feed.String), ""
}

const notBase64 = "it is not base64"

// decode has s.digits be the bytes that a value in base64 means.
func (s *Scratch) decode(v *feed.Field) bool {
	if v.Kind != feed.String {
		return false
	}
	text := s.textOf(v)
	s.digits = append(s.digits[:0], make([]byte, base64.StdEncoding.DecodedLen(len(text)))...)
	n, err := base64.StdEncoding.Strict().Decode(s.digits, text)
	s.digits = s.digits[:n]
	return err == nil
}
