package cast

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold/schema"
)

// A Reader converts values. Results share its memory and are valid until [Reader.Reset].
type Reader struct {
	feed.Unquoter
	bytes         []byte // backing memory of converted values
	digits, zeros []byte
}

// Reset reuses the memory of all values that were read.
func (r *Reader) Reset() { r.bytes = r.bytes[:0] }

// A Cast converts values to the type of a column.
type Cast struct {
	Type
	unconverted uint8 // the kinds of values that need no conversion, a bit for each
	read        func(r *Reader, v *feed.Field, c *Cast) (feed.Field, string)

	// textTime: points in time are written like SQLite's functions write them, in UTC: 2020-05-15 13:30:00. Else as
	// in RFC 3339.
	textTime bool
	shift    int  // number of decimal digits of a second in a numeric point in time: 3 for milliseconds
	utc      bool // a point in time without an offset is in UTC
	scale    int  // of a Base64Number: digits after the point, or noScale
	// TextJSON: the database has no JSON type, and strings of JSON are stored as JSON strings.
	TextJSON bool
	// SureUnit: the source's schema declares the unit of numeric times. If it does not, a year after 9999 probably
	// means another unit.
	SureUnit bool
	element  *Cast // of an Array
	// BitLength is the length of the bit strings of the column, -1 if it varies; 0 means that it stores bytes.
	BitLength int
}

const anyKind = 1<<feed.Null | 1<<feed.Bool | 1<<feed.Int | 1<<feed.Number | 1<<feed.String | 1<<feed.JSON

// New returns the cast of a type. textTypes: the database has no types for times and JSON, and stores them as text.
func New(t Type, textTypes bool) Cast {
	r := rules[t.Kind]
	c := Cast{Type: t, unconverted: 1<<feed.Null | r.keeps, read: r.read, shift: r.shift, utc: t.Kind == TimestampUTC,
		scale: noScale, textTime: textTypes, TextJSON: textTypes}
	if t.Precision > 0 {
		c.scale = t.Scale
	}
	return c
}

// Decimal returns the cast of a [Base64Number] with this many digits after the point.
func Decimal(scale int, textTypes bool) Cast {
	c := New(Type{Kind: Base64Number}, textTypes)
	c.scale = scale
	return c
}

// ArrayOf returns the cast of JSON arrays whose elements have the given cast.
func ArrayOf(element *Cast, textTypes bool) Cast {
	c := New(Type{Kind: Array}, textTypes)
	c.read, c.element = (*Reader).readArray, element
	return c
}

// Double returns the cast of a column of doubles that Java printed.
func Double() Cast {
	return Cast{Type: Type{Kind: Real}, unconverted: anyKind &^ (1 << feed.Number), read: (*Reader).readDouble}
}

// Keeps reports whether values of a kind need no conversion.
func (c *Cast) Keeps(k feed.Kind) bool { return c.unconverted&(1<<k) != 0 }

// KeepsAll reports whether no value needs conversion.
func (c *Cast) KeepsAll() bool { return c.unconverted == anyKind }

// maxSeconds is the maximum number of digits of a second in a text that weir writes. Postgres rounds them, but reads no
// time of more than 128 characters.
const maxSeconds = 100

// Read converts a value to the form that a column of the type stores. If that is impossible, the string is the
// reason. Null is unchanged.
func (r *Reader) Read(v *feed.Field, c *Cast) (feed.Field, string) {
	switch {
	case c.Keeps(v.Kind):
		return *v, ""
	case v.Kind == feed.JSON && c.Kind != Text && c.Kind != Base64Number && c.Kind != Array:
		return *v, "an object or array is not " + Article(c.Type)
	}
	return c.read(r, v, c)
}

// Read returns the text that SQLite stores for a value of the type. ok is false if the type cannot hold it.
func (t Type) Read(value []byte) (text string, ok bool) {
	v := feed.Field{Value: value, Kind: feed.KindOf(value)}
	c := New(t, true)
	out, why := new(Reader).Read(&v, &c)
	return string(feed.AppendText(nil, out.Value, out.Kind)), why == ""
}

// Article returns the type with its article, such as "an integer".
func Article(t Type) string { return cmp.Or(rules[t.Kind].article, "a "+string(t.Kind)) }

// made returns the value that starts at an index of r.bytes.
func (r *Reader) made(from int, k feed.Kind) feed.Field {
	return feed.Field{Value: r.bytes[from:len(r.bytes):len(r.bytes)], Kind: k}
}

func (r *Reader) readText(v *feed.Field, _ *Cast) (feed.Field, string) {
	from := len(r.bytes)
	r.bytes = feed.AppendString(r.bytes, string(v.Value))
	return r.made(from, feed.String), ""
}

func (r *Reader) readJSON(v *feed.Field, c *Cast) (feed.Field, string) {
	switch {
	case v.Kind == feed.Number:
		if d, _ := r.number(v.Value); d.Point > schema.MaxWhole || d.Fraction() > schema.MaxFraction {
			return *v, "it has more digits than a database's numbers"
		}
	case v.Kind == feed.String && c.TextJSON:
		return r.readText(v, c)
	}
	return *v, ""
}

// maxNumber is the maximum number of characters of a number.
const maxNumber = 4096

// number reads a number in the form of [feed.ReadDecimal]. The result is valid until the next call.
func (r *Reader) number(text []byte) (d feed.Decimal, ok bool) {
	if len(bytes.TrimLeft(text, "+-")) > maxNumber {
		return d, false
	}
	r.digits = slices.Grow(r.digits[:0], len(text))
	return feed.ReadDecimal(r.digits, text)
}

func (r *Reader) readInteger(v *feed.Field, _ *Cast) (feed.Field, string) {
	if v.Kind == feed.Int {
		if _, ok := feed.ParseInt(v.Value, feed.Int); ok {
			return *v, ""
		}
	}
	n, why := r.integer(v)
	if why != "" {
		return *v, why
	}
	from := len(r.bytes)
	r.bytes = strconv.AppendInt(r.bytes, n, 10)
	return r.made(from, feed.Int), ""
}

// integer reads an integer of 64 bits from a number or a string.
func (r *Reader) integer(v *feed.Field) (int64, string) {
	if v.Kind == feed.Bool {
		return 0, "it is not an integer"
	}
	d, ok := r.number(r.Text(v))
	if !ok {
		return 0, "it is not an integer"
	}
	n, ok := d.Int()
	switch {
	case ok:
		return n, ""
	case d.Fraction() > 0:
		return 0, "it has a fraction"
	}
	return 0, "it does not fit into a 64-bit integer"
}

func (r *Reader) readReal(v *feed.Field, _ *Cast) (feed.Field, string) {
	if v.Kind == feed.Bool {
		return *v, "it is not a number"
	}
	text := r.Text(v)
	if special := schema.Special(text); special != nil {
		return feed.Field{Value: special, Kind: feed.String}, ""
	}
	if _, ok := r.number(text); !ok {
		return *v, "it is not a number"
	}
	f, exact, ok := feed.ParseReal(bytes.TrimPrefix(text, []byte("+")))
	switch {
	case !ok:
		return *v, "it is outside the range of a real"
	case !exact:
		return *v, "it has more digits than a real holds (numeric holds them)"
	case v.Kind != feed.String:
		return *v, ""
	}
	from := len(r.bytes)
	r.bytes = feed.AppendReal(r.bytes, f)
	return r.made(from, feed.KindOf(r.bytes[from:])), ""
}

func (r *Reader) readNumeric(v *feed.Field, c *Cast) (feed.Field, string) {
	if v.Kind == feed.Bool {
		return *v, "it is not a number"
	}
	text := r.Text(v)
	special := schema.Special(text)
	if special != nil && (c.Precision == 0 || string(special) == `"NaN"`) { // the digits before the point are limited
		return feed.Field{Value: special, Kind: feed.String}, ""
	}
	d, ok := r.number(text)
	if !ok {
		return *v, "it is not a number"
	}
	whole, fraction := schema.MaxWhole, schema.MaxFraction
	if c.Precision > 0 {
		whole, fraction = c.Precision-c.Scale, c.Scale
	}
	switch {
	case d.Point > whole:
		return *v, fmt.Sprintf("it has more than %s before the point", digits(whole))
	case d.Fraction() > fraction:
		return *v, fmt.Sprintf("it has more than %s after the point", digits(fraction))
	case v.Kind != feed.String:
		return *v, ""
	}
	from := len(r.bytes)
	if d.Negative {
		r.bytes = append(r.bytes, '-')
	}
	r.bytes = append(r.bytes, plain(text)...)
	return r.made(from, feed.KindOf(r.bytes[from:])), ""
}

func digits(n int) string {
	if n == 1 {
		return "1 digit"
	}
	return fmt.Sprintf("%d digits", n)
}

// plain returns the text of a number without its sign and leading zeros.
func plain(text []byte) []byte {
	text = bytes.TrimLeft(text, "+-")
	for len(text) > 1 && text[0] == '0' && text[1]-'0' < 10 {
		text = text[1:]
	}
	return text
}

var literals = map[bool][]byte{true: []byte("true"), false: []byte("false")}

func (r *Reader) readBoolean(v *feed.Field, _ *Cast) (feed.Field, string) {
	switch string(r.Text(v)) {
	case "true", "1":
		return feed.Field{Value: literals[true], Kind: feed.Bool}, ""
	case "false", "0":
		return feed.Field{Value: literals[false], Kind: feed.Bool}, ""
	}
	return *v, "it is not true, false, 1 or 0"
}

func (r *Reader) readUUID(v *feed.Field, _ *Cast) (feed.Field, string) {
	if v.Kind != feed.String {
		return *v, "it is not a UUID"
	}
	text := r.Text(v)
	hexes, ok := schema.AppendUUID(r.digits[:0], text)
	if r.digits = hexes; !ok {
		return *v, "it is not a UUID"
	}
	from := len(r.bytes)
	for i, c := range hexes {
		switch i {
		case 0:
			r.bytes = append(r.bytes, '"')
		case 8, 12, 16, 20:
			r.bytes = append(r.bytes, '-')
		}
		r.bytes = append(r.bytes, c)
	}
	r.bytes = append(r.bytes, '"')
	return r.made(from, feed.String), ""
}

func (r *Reader) readBytes(v *feed.Field, _ *Cast) (feed.Field, string) {
	if !r.decode(v) {
		return *v, notBase64
	}
	from := len(r.bytes)
	r.bytes = append(r.bytes, `"\\x`...)
	r.bytes = append(hex.AppendEncode(r.bytes, r.digits), '"')
	return r.made(from, feed.String), ""
}

// readBits reads a bit string that Debezium sends in bytes.
func (r *Reader) readBits(v *feed.Field, c *Cast) (feed.Field, string) {
	if c.BitLength == 0 {
		return r.readBytes(v, c)
	}
	if !r.decode(v) {
		return *v, notBase64
	}
	length := c.BitLength
	if length < 0 {
		length = 8 * len(r.digits)
	}
	for i := length; i < 8*len(r.digits); i++ {
		if r.bit(i) == '1' {
			return *v, fmt.Sprintf("it has more than %d bits", length)
		}
	}
	from := len(r.bytes)
	r.bytes = append(r.bytes, '"')
	for i := length - 1; i >= 0; i-- {
		r.bytes = append(r.bytes, r.bit(i))
	}
	r.bytes = append(r.bytes, '"')
	return r.made(from, feed.String), ""
}

// bit returns a bit of r.digits as a digit.
func (r *Reader) bit(i int) byte {
	if i/8 >= len(r.digits) {
		return '0'
	}
	return '0' + r.digits[i/8]>>(i%8)&1
}

const notBase64 = "it is not base64"

// decode decodes a base64 value into r.digits.
func (r *Reader) decode(v *feed.Field) bool {
	if v.Kind != feed.String {
		return false
	}
	text := r.Text(v)
	r.digits = append(r.digits[:0], make([]byte, base64.StdEncoding.DecodedLen(len(text)))...)
	n, err := base64.StdEncoding.Strict().Decode(r.digits, text)
	r.digits = r.digits[:n]
	return err == nil
}
