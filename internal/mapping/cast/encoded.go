package cast

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strconv"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold/schema"
)

// noScale marks a Base64Number whose scale is in each value.
const noScale = math.MinInt

// readBase64Number reads a decimal in Kafka Connect's encoding.
func (r *Reader) readBase64Number(v *feed.Field, c *Cast) (feed.Field, string) {
	scale := c.scale
	switch v.Kind {
	case feed.Int, feed.Number: // decimal.format=NUMERIC
		return r.readNumeric(v, c)
	case feed.JSON:
		var ok bool
		if v, scale, ok = scaled(v.Value); !ok {
			return *v, "it is neither base64 nor an object with scale and value"
		}
	}
	if scale == noScale {
		return *v, "it does not say how many of its digits follow the point, and numeric_base64(DIGITS,FRACTION) does"
	}
	if !r.decode(v) || len(r.digits) == 0 {
		return *v, notBase64
	}
	if len(r.digits) > maxNumber {
		return *v, "it has more digits than a database's numbers"
	}
	n := new(big.Int).SetBytes(r.digits)
	if r.digits[0]&0x80 != 0 { // two's complement
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(r.digits))))
	}
	from := len(r.bytes)
	if n.Sign() < 0 {
		r.bytes = append(r.bytes, '-')
	}
	digits := n.Abs(n).Append(nil, 10)
	if max(len(digits), scale+1)-min(scale, 0) >= maxNumber { // the point counts too
		return *v, "it has more digits than a database's numbers"
	}
	if scale < 0 {
		digits, scale = append(digits, bytes.Repeat([]byte{'0'}, -scale)...), 0
	}
	if zeros := scale + 1 - len(digits); zeros > 0 {
		digits = append(bytes.Repeat([]byte{'0'}, zeros), digits...)
	}
	r.bytes = append(r.bytes, digits[:len(digits)-scale]...)
	if scale > 0 {
		r.bytes = append(append(r.bytes, '.'), digits[len(digits)-scale:]...)
	}
	made := r.made(from, feed.KindOf(r.bytes[from:]))
	return r.readNumeric(&made, c)
}

// scaled reads the value and the scale from an object.
func scaled(object []byte) (v *feed.Field, scale int, ok bool) {
	value := feed.Member(object, "value")
	scale, err := strconv.Atoi(string(feed.Member(object, "scale").Value))
	return &value, scale, err == nil && -schema.MaxWhole <= scale && scale <= schema.MaxFraction && value.Kind == feed.String
}

func (r *Reader) readArray(v *feed.Field, c *Cast) (feed.Field, string) {
	if v.Kind != feed.JSON || v.Value[0] != '[' {
		return *v, "it is not an array"
	}
	var array []byte
	w := feed.Walk(v.Value)
	for w.Next(); w.Next(); {
		element := w.Field()
		out, why := r.Read(&element, c.element)
		if why != "" {
			return *v, "its element " + feed.Clip(element.Value) + ": " + why
		}
		array = append(append(array, ','), out.Value...)
	}
	from := len(r.bytes)
	r.bytes = append(r.bytes, '[')
	if len(array) > 0 {
		r.bytes = append(r.bytes, array[1:]...)
	}
	r.bytes = append(r.bytes, ']')
	return r.made(from, feed.JSON), ""
}

// readJSONText reads JSON from a string. A text column gets the string itself.
func (r *Reader) readJSONText(v *feed.Field, c *Cast) (feed.Field, string) {
	if v.Kind != feed.String {
		return *v, "it is not a string with JSON"
	}
	text := bytes.TrimSpace(r.Text(v))
	switch {
	case !json.Valid(text):
		return *v, "it is not a string with JSON"
	case c.TextJSON:
		return *v, ""
	}
	if text[0] == 'n' { // JSON null, not SQL NULL
		return feed.Field{Value: feed.JSONNull, Kind: feed.JSON}, ""
	}
	from := len(r.bytes)
	r.bytes = append(r.bytes, text...)
	return r.made(from, feed.KindOf(text)), ""
}

// readTimeOfDay reads the time since midnight. MySQL's times may be negative or longer than a day.
func (r *Reader) readTimeOfDay(v *feed.Field, c *Cast) (feed.Field, string) {
	n, why := r.integer(v)
	if why != "" {
		return *v, why
	}
	unit := int64(1)
	for range c.shift {
		unit *= 10
	}
	from, sign := len(r.bytes), ""
	second, fraction := n/unit, n%unit
	if n < 0 {
		sign, second, fraction = "-", -second, -fraction
	}
	r.bytes = fmt.Appendf(r.bytes, `"%s%02d:%02d:%02d`, sign, second/3600, second/60%60, second%60)
	if fraction > 0 {
		r.bytes = bytes.TrimRight(fmt.Appendf(r.bytes, ".%0*d", c.shift, fraction), "0")
	}
	r.bytes = append(r.bytes, '"')
	return r.made(from, feed.String), ""
}

// readDouble rewrites a double in its shortest form: Java may print more digits than necessary.
func (r *Reader) readDouble(v *feed.Field, _ *Cast) (feed.Field, string) {
	n, _, ok := feed.ParseReal(v.Value)
	if !ok {
		return *v, ""
	}
	from := len(r.bytes)
	r.bytes = feed.AppendReal(r.bytes, n)
	return r.made(from, feed.KindOf(r.bytes[from:])), ""
}
