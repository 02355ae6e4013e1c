package mapping_test

import (
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/testcheck"
)

// TestCast reads the values in testdata/casts.txtar as types, in databases with types of their own and in those where
// they are texts.
func TestCast(t *testing.T) {
	testcheck.Golden(t, "testdata/casts.txtar", func(t *testing.T, typ, text string) (out string) {
		for line := range strings.Lines(text) {
			value, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " → ")
			postgres, sqlite := cast(t, typ, value, false), cast(t, typ, value, true)
			if out += value + " → " + postgres; sqlite != postgres {
				out += " → " + sqlite
			}
			out += "\n"
		}
		return out
	})
}

// cast reads a value as a type. What it returns is JSON, or why the value has no such form.
func cast(t *testing.T, typ, value string, textTypes bool) string {
	m := newMapper(t, parse(t, "tables: {t: {columns: {id: {value: 1}, v: \"as "+typ+"\"}}}"), schema.Limits{TextTypes: textTypes})
	var l feed.Line
	if l.Scan(m.scan, nil, []byte(`{"v":`+value+`}`)); l.Err != nil {
		t.Fatal(value, l.Err)
	}
	rows, _, err := m.Map(&l, fold.Place{}, m.scratch)
	if err != nil {
		_, why, _ := strings.Cut(err.Error(), ": it ")
		return "it " + why
	}
	f := rows[0].Fields[1]
	if k := feed.KindOf(f.Value); k != f.Kind {
		t.Errorf("%s as %s: %s is %s and called %s", value, typ, f.Value, k, f.Kind)
	}
	return string(f.Value)
}
