package settings

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold/schema"
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
		differ := func(at paths.Pos, format string, args ...any) {
			differences = append(differences, &mapping.Fault{File: m.File, Pos: at, Where: fmt.Sprintf("test %q", c.Name), Text: "table " + want.Name + fmt.Sprintf(format, args...)})
		}
		of := m.With(want.Name)
		t := of.Table(want.Name)
		if t == nil || t.IsStar() {
			differ(want.Pos, " is not in this file%s", feed.DidYouMean(want.Name, m.Names()))
			continue
		}
		p, err := mapping.Compile(of, mapping.AnyLimits)
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
		if len(have) != len(want.Rows) {
			differ(want.Pos, " has %s, want %s: %s", quantity.Count(int64(len(have)), "row"), quantity.Count(int64(len(want.Rows)), "row"), strings.Join(texts[:min(len(texts), 10)], " "))
			continue
		}
		sortByKey(have, p.Tables[slices.Index(p.TableNames(), t.Name)].StoredKey())
		for i, row := range want.Rows {
			for _, cell := range row {
				raw, as := have[i][cell.Column], typeOf(t, cell.Column)
				if canonical(as, cell.Value) != canonical(as, raw) {
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
		if s.Stamp != schema.NoStamp || s.Meta != mapping.NoMeta || j > 0 && as.Kind != of.Kind {
			return none
		}
		of = as
	}
	return of
}

// canonical returns the same text for all spellings of a value of a type, among them how SQLite stores it.
func canonical(t cast.Type, raw []byte) string {
	if raw == nil || string(raw) == "null" {
		return "\x00"
	}
	kind := feed.KindOf(raw)
	text, untyped := string(feed.AppendText(nil, raw, kind)), t.Kind == cast.Auto || t.Kind == cast.DefaultType
	if read, ok := t.Read(raw); ok && !untyped && t.Kind != cast.JSON { // JSON is stored as its text
		text = read
	}
	isNumber := func(text string) bool { _, ok := feed.IsNumber([]byte(text)); return ok }
	switch booleans := map[string]string{"true": "1", "false": "0"}; {
	case t.Kind == cast.Text:
		return text
	case strings.HasPrefix(text, "{") || strings.HasPrefix(text, "["):
		return oneSpelling(text)
	case kind == feed.String && untyped:
		return `"` + text
	case isNumber(text):
		return string(feed.AppendDecimal(nil, []byte(text)))
	case untyped || t.Kind == cast.Boolean:
		return cmp.Or(booleans[text], text)
	default:
		return text
	}
}

// oneSpelling returns JSON with sorted members and decimal numbers; other text unchanged.
func oneSpelling(text string) string {
	var v any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return text
	}
	var decimal func(v any) any
	decimal = func(v any) any {
		switch v := v.(type) {
		case json.Number:
			return json.Number(feed.AppendDecimal(nil, []byte(v)))
		case []any:
			for i := range v {
				v[i] = decimal(v[i])
			}
		case map[string]any:
			for name := range v {
				v[name] = decimal(v[name])
			}
		}
		return v
	}
	out, _ := json.Marshal(decimal(v)) // it was decoded
	return string(out)
}
