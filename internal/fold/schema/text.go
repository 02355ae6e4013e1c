package schema

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/weirsync/weir/internal/feed"
)

// MaxWhole and MaxFraction are the maximum digits before and after the point, in all databases, so a feed makes the
// same table everywhere. They are the limits of Postgres' numeric
// (https://www.postgresql.org/docs/current/datatype-numeric.html).
const (
	MaxWhole    = 131072
	MaxFraction = 16383
)

// huge reports whether a number has more digits than any numeric type accepts. A number has at most 4096 characters,
// so only one with an exponent can.
func huge(number []byte) bool {
	i := bytes.IndexAny(number, "eE")
	if i < 0 || len(number)-i < 5 {
		return false
	}
	d, _ := feed.ReadDecimal(nil, number)
	return d.Point > MaxWhole || d.Fraction() > MaxFraction
}

// hasHuge reports whether an object or array contains such a number.
func hasHuge(json []byte) bool {
	w := feed.Walk(json)
	for w.Next() {
		if w.Kind == feed.Number && huge(w.Raw()) {
			return true
		}
	}
	return false
}

// specials are the numbers that are not decimals, as JSON, by Postgres' spelling in lower case.
var specials = map[string][]byte{"nan": []byte(`"NaN"`), "infinity": []byte(`"Infinity"`), "-infinity": []byte(`"-Infinity"`)}

// Special returns NaN or an infinity as JSON, for a text in any spelling that Postgres reads; nil for any other text.
func Special(text []byte) []byte {
	if len(text) < len("NaN") || len(text) > len("-infinity") || text[len(text)-1]|0x20 < 'f' {
		return nil
	}
	word := strings.TrimPrefix(strings.ToLower(string(text)), "+")
	if strings.HasSuffix(word, "inf") {
		word += "inity"
	}
	return specials[word]
}

// isSpecial reports whether a raw string is such a number, as databases print it.
func isSpecial(value []byte) bool {
	switch string(value) {
	case `"NaN"`, `"Infinity"`, `"-Infinity"`:
		return true
	}
	return false
}

// AppendUUID appends the digits of a UUID in lower case. text may have any spelling that Postgres reads
// (https://www.postgresql.org/docs/current/datatype-uuid.html): with or without braces, and with a hyphen after any
// group of four digits.
func AppendUUID(dst, text []byte) (_ []byte, ok bool) {
	if n := len(text); n > 2 && text[0] == '{' && text[n-1] == '}' {
		text = text[1 : n-1]
	}
	from := len(dst)
	for i, c := range text {
		digits := len(dst) - from
		switch {
		case '0' <= c && c <= '9' || 'a' <= c && c <= 'f':
			dst = append(dst, c)
		case 'A' <= c && c <= 'F':
			dst = append(dst, c+'a'-'A')
		case c == '-' && digits > 0 && digits%4 == 0 && digits < 32 && text[i-1] != '-':
		default:
			return dst[:from], false
		}
	}
	return dst, len(dst)-from == 32
}

// appendTime appends one spelling for all spellings of a date or a point in time that are valid in a key, by
// RFC 3339.
func (c *Column) appendTime(dst, text []byte) (_ []byte, ok bool) {
	if c.Type == Day {
		t, err := time.Parse(time.DateOnly, string(text))
		return t.AppendFormat(dst, time.DateOnly), err == nil
	}
	t, err := time.Parse(time.RFC3339Nano, string(text))
	return strconv.AppendInt(dst, t.Unix()*1e6+micros(text), 10), err == nil
}

// micros returns the microseconds of a point in time, rounded like in Postgres: from a double, half to even.
func micros(text []byte) int64 {
	_, fraction, _ := bytes.Cut(text, []byte("."))
	digits := len(fraction) - len(bytes.TrimLeft(fraction, "0123456789"))
	f, _ := strconv.ParseFloat("0."+string(fraction[:digits]), 64)
	return int64(math.RoundToEven(f * 1e6))
}
