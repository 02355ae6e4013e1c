package schema

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"slices"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/merge"
)

// Respelled reports whether text, which the column holds, may be a raw value of a feed
// that the column took in a narrower type: a widening keeps the value of a number or of
// JSON, and not its spelling. Nor does Postgres keep the escapes of what it patches.
func (c *Column) Respelled(raw, text []byte) bool {
	switch k := feed.KindOf(raw); k {
	case feed.Int, feed.Number:
		_, isNumber := feed.IsNumber(text)
		return isNumber && (c.Type == Text || c.Type == Number || c.Type == Any) && sameNumber(raw, text)
	case feed.JSON:
		a, b := parse(raw), parse(text)
		return (c.Type == Text || c.Merge == merge.Patch) && a != nil && b != nil && sameJSON(a, b)
	}
	return false
}

func sameNumber(a, b []byte) bool {
	return bytes.Equal(feed.AppendDecimal(nil, a), feed.AppendDecimal(nil, b))
}

// AppendByValue appends one spelling for all texts of a number, or of JSON; any other text as it is.
func AppendByValue(dst, text []byte) []byte {
	if _, isNumber := feed.IsNumber(text); isNumber {
		return feed.AppendDecimal(dst, text)
	}
	if len(text) == 0 || text[0] != '{' && text[0] != '[' {
		return append(dst, text...)
	}
	v := parse(text)
	if v == nil {
		return append(dst, text...)
	}
	spelled, _ := json.Marshal(byValue(v)) // it was parsed
	return append(dst, spelled...)
}

// byValue is a JSON value whose numbers have one spelling.
func byValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name := range v {
			v[name] = byValue(v[name])
		}
	case []any:
		for i := range v {
			v[i] = byValue(v[i])
		}
	case json.Number:
		return json.Number(feed.AppendDecimal(nil, []byte(v)))
	}
	return v
}

// parse returns a JSON object or array, or nil.
func parse(text []byte) any {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil
	}
	if _, err := d.Token(); err != io.EOF {
		return nil
	}
	return v
}

func sameJSON(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, b, sameJSON)
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, sameJSON)
	case json.Number:
		b, ok := b.(json.Number)
		return ok && sameNumber([]byte(a), []byte(b))
	}
	return a == b
}
