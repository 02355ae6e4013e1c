package schema

import (
	"bytes"
	"testing"

	"github.com/weirsync/weir/internal/feed"
)

// A column of weir's that took a value takes it again, whatever it was widened to since.
func FuzzWiden(f *testing.F) {
	f.Add([]byte("1\n1.5\ntrue\n\"x\"\n{}\nnull\n9223372036854775808\n1e400"), false)
	f.Add([]byte("\"1\"\n7\n\"a\""), true)
	f.Fuzz(func(t *testing.T, text []byte, key bool) {
		var names feed.Names
		scan := feed.NewScanner(&names)
		c := New("c", key)
		var taken [][]byte
		admit := func(v []byte) *feed.Error {
			k := feed.KindOf(v)
			if c.Holds(k) {
				return nil
			}
			return c.Admit(v, k)
		}
		for _, v := range bytes.Split(text, []byte("\n")) {
			line := append(append([]byte(`{"c":`), v...), '}')
			fields, err := scan.Append(nil, line)
			if err != nil || len(fields) != 1 {
				continue
			}
			v := fields[0].Value
			if k := fields[0].Kind; key && (k == feed.Null || k == feed.JSON) {
				continue
			}
			if admit(v) == nil {
				taken = append(taken, v)
			}
		}
		// So a later run finds it.
		table := Table{Columns: []Column{{Name: "c", Key: key}}}
		marks := (&Table{Columns: []Column{c}}).Marks()
		if err := table.Own(marks, func(*Column, Type) bool { return true }, func(*Column) string { return "" }); err != nil {
			t.Fatal(err)
		}
		was := c.Type
		if c = table.Columns[0]; c.Type != was {
			t.Errorf("a column that was %v is %v to the next run", was, c.Type)
		}
		for _, v := range taken {
			if err := admit(v); err != nil || c.Type != was {
				t.Errorf("%s was taken, and now: %v (type %v, then %v)", v, err, was, c.Type)
			}
		}
	})
}
