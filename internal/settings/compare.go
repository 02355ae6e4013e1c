package settings

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/mapping/cast"
	"github.com/weirsync/weir/internal/mapping/paths"
	"github.com/weirsync/weir/internal/quantity"
)

// Compare compares the tables that a test names with the rows that its feed made, and returns each difference with its
// place. rows returns the rows of a table in any order, each as a JSON object without NULLs.
func (c *Case) Compare(m *mapping.Mapping, rows func(table string) ([]string, error)) ([]*mapping.Fault, error) {
	var differences []*mapping.Fault
	for _, want := range c.Want {
		of := m.With(want.Name)
		t := of.Table(want.Name)
		names, err := mapping.Check(of)
		if err != nil {
			return nil, err
		}
		texts, err := rows(t.Name)
		if err != nil {
			return nil, err
		}
		have := make([]map[string]json.RawMessage, len(texts))
		for i, text := range texts {
			if err := json.Unmarshal([]byte(text), &have[i]); err != nil {
				return nil, fmt.Errorf("a row of table %s: %w", t.Name, err)
			}
		}
		differ := func(at paths.Pos, format string, args ...any) {
			differences = append(differences, &mapping.Fault{File: m.File, Pos: at, Where: fmt.Sprintf("test %q", c.Name), Text: "table " + t.Name + fmt.Sprintf(format, args...)})
		}
		if len(have) != len(want.Rows) {
			differ(want.Pos, " has %s, want %s: %s", quantity.Count(int64(len(have)), "row"), quantity.Count(int64(len(want.Rows)), "row"), strings.Join(texts[:min(len(texts), 10)], " "))
			continue
		}
		sortByKey(have, names[t.Name].Key)
		for i, row := range want.Rows {
			for _, cell := range row {
				if raw := have[i][cell.Column]; !sameValue(typeOf(t, cell.Column), cell.Value, raw) {
					if raw == nil {
						raw = []byte("null")
					}
					differ(cell.Pos, ", row %d: %s is %s, want %s", i+1, cell.Column, raw, cell.Value)
				}
			}
		}
	}
	return differences, nil
}

// sortByKey sorts rows by their keys, numbers before texts.
func sortByKey(rows []map[string]json.RawMessage, key []string) {
	slices.SortStableFunc(rows, func(a, b map[string]json.RawMessage) int {
		for _, k := range key {
			if order := feed.Compare(a[k], b[k]); order != 0 {
				return order
			}
		}
		return 0
	})
}

// plain returns a value as text, the same for all spellings of a number.
func plain(raw []byte) string {
	if _, ok := feed.IsNumber(raw); ok {
		return string(feed.AppendDecimal(nil, raw))
	}
	return string(feed.AppendText(nil, raw, feed.KindOf(raw)))
}

// typeOf returns the type of a column's values; auto if it has none, or several.
func typeOf(t *mapping.Table, name string) cast.Type {
	none := cast.Type{Kind: cast.Auto}
	i := slices.IndexFunc(t.Columns, func(c mapping.Column) bool { return c.Name == name })
	if i < 0 {
		return none
	}
	var of cast.Type
	for j, s := range t.Columns[i].From {
		as := t.TypeOf(&s)
		if s.Stamp != mapping.NoStamp || s.Meta != mapping.NoMeta || j > 0 && as.Kind != of.Kind {
			return none
		}
		of = as
	}
	return of
}

// sameValue reports whether a row has the value that a test expects, which is converted to the column's type. have is
// nil for NULL.
func sameValue(t cast.Type, want, have []byte) bool {
	wantNull, haveNull := string(want) == "null", have == nil || string(have) == "null"
	if wantNull || haveNull {
		return wantNull == haveNull
	}
	switch t.Kind {
	case cast.Text:
		text, _ := t.Read(want)
		return text == string(feed.AppendText(nil, have, feed.KindOf(have)))
	case cast.Auto, cast.DefaultType:
		return (feed.KindOf(want) == feed.String) == (feed.KindOf(have) == feed.String) && plain(want) == plain(have) || sameBoolean(want, have) || sameJSON(want, have)
	case cast.JSON:
		return sameJSON(want, have) || plain(want) == plain(have)
	}
	if plain(want) == plain(have) {
		return true
	}
	read, ok := t.Read(want)
	if ok && read == plain(have) {
		return true
	}
	again, okToo := t.Read(have)
	return ok && okToo && plain([]byte(read)) == plain([]byte(again))
}

// sameBoolean reports whether have is how SQLite stores a boolean: 1 or 0.
func sameBoolean(want, have []byte) bool {
	return string(want) == "true" && string(have) == "1" || string(want) == "false" && string(have) == "0"
}

// sameJSON compares an object or array with the database's JSON text.
func sameJSON(want, have []byte) bool {
	if feed.KindOf(want) != feed.JSON {
		return false
	}
	text := feed.AppendText(nil, have, feed.KindOf(have))
	var a, b any
	return decode(want, &a) && decode(text, &b) && reflect.DeepEqual(oneSpelling(a), oneSpelling(b))
}

// oneSpelling normalizes the numbers in a decoded value.
func oneSpelling(v any) any {
	switch v := v.(type) {
	case json.Number:
		return json.Number(plain([]byte(v)))
	case []any:
		for i := range v {
			v[i] = oneSpelling(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = oneSpelling(v[name])
		}
	}
	return v
}

func decode(text []byte, into *any) bool {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return d.Decode(into) == nil
}
