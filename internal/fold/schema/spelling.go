package schema

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold/merge"
)

// Respelled reports whether text, from the column, may be the raw value of a feed that was stored in a narrower type.
// Widening keeps the value of a number or JSON but not its spelling, and Postgres does not keep the escapes in what
// it patches.
func (c *Column) Respelled(raw, text []byte) bool {
	switch k := feed.KindOf(raw); {
	case (k == feed.Int || k == feed.Number) && (c.Type == Text || c.Type == Number || c.Type == Any):
	case k == feed.JSON && (c.Type == Text || c.Merge == merge.Patch):
	default:
		return false
	}
	return bytes.Equal(AppendByValue(nil, raw), AppendByValue(nil, text))
}

// AppendByValue appends one spelling for all texts of a number or of JSON, and any other text unchanged.
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
	spelled, _ := json.Marshal(byValue(v)) // it was parsed, so no error
	return append(dst, spelled...)
}

// byValue rewrites the numbers in a JSON value to one spelling, and returns it.
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

// parse returns a JSON object or array, or nil for anything else.
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
