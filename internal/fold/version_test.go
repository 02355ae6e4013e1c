package fold

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/logtest"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/testcheck"
)

// FuzzState: each version comes back as it was written, beside any other, and states that differ are written otherwise.
func FuzzState(f *testing.F) {
	texts := []string{"7", "+5", "007", "-0", "0", "00", ".", "--", "1e3", "1.50", "2026-11-23T05:15:07.5+01:00", "2026-11-23 05:15", "\x00", "a\x00b", "\xc3\xa9", "ab", "abc"}
	for _, n := range []int{63, 64, 127, 128, 255, maxVersion} {
		texts = append(texts, strings.Repeat("7", n), strings.Repeat("z", n), strings.Repeat("7", n-1)+"z")
	}
	written := map[string]string{}
	for i, text := range texts {
		other := []byte(texts[(i+1)%len(texts)])
		s := state{live: []byte(text), tomb: other, columns: [][]byte{nil, other, []byte(text), []byte(text), nil, other}}
		coded := s.encode()
		if same, ok := written[string(coded)]; ok {
			f.Errorf("%q and %q are written as the same", text, same)
		}
		written[string(coded)] = text
		var is state
		if err := is.decode(coded, 6); err != nil || !bytes.Equal(is.live, s.live) || !bytes.Equal(is.tomb, s.tomb) || !slices.EqualFunc(is.columns, s.columns, bytes.Equal) {
			f.Errorf("%q and %q became %q %q %q, %v", text, other, is.live, is.tomb, is.columns, err)
		}
		f.Add(coded, uint8(6))
		f.Add(coded[:len(coded)/2], uint8(6)) // is damaged, or another state
	}
	f.Add([]byte{1, 3, '7', 2}, uint8(0))
	f.Add([]byte{0, 0, 200, 1}, uint8(3))
	f.Fuzz(func(t *testing.T, raw []byte, columns uint8) {
		var was, is state
		if was.decode(raw, int(columns)) != nil {
			return
		}
		live, tomb, cells := bytes.Clone(was.live), bytes.Clone(was.tomb), make([][]byte, len(was.columns))
		for i := range cells {
			cells[i] = bytes.Clone(was.columns[i])
		}
		coded := was.encode()
		testcheck.NoError(t, is.decode(coded, int(columns)))
		if !bytes.Equal(is.live, live) || !bytes.Equal(is.tomb, tomb) || !slices.EqualFunc(is.columns, cells, bytes.Equal) {
			t.Errorf("%q %q %q became %q %q %q", live, tomb, cells, is.live, is.tomb, is.columns)
		}
	})
}

// TestState_Size: states are short, for in a table whose rows change in no order each page of them is written.
func TestState_Size(t *testing.T) {
	for version, want := range map[string]int{"1000000000": 10, "2026-11-23T05:15:07Z": 15, "17.25": 8, "b": 6} {
		s := state{live: []byte(version), columns: [][]byte{nil}}
		for range 20 {
			s.columns = append(s.columns, s.live)
		}
		if coded := s.encode(); len(coded) != want {
			t.Errorf("the state of a row of version %s has %d bytes: %q", version, len(coded), coded)
		}
	}
}

// TestCheckVersion: a version of the whole row is kept where it stays as it is.
func TestCheckVersion(t *testing.T) {
	for _, c := range []struct {
		column schema.Column
		want   string // in the error
	}{
		{schema.Column{Type: schema.Int, Decl: "bigint"}, ""},
		{schema.Column{Type: schema.Real, Decl: "double precision", Size: 8}, ""},
		{schema.Column{Type: schema.Real, Decl: "REAL"}, ""},
		{schema.Column{Type: schema.Number, Decl: "numeric"}, ""},
		{schema.Column{Type: schema.Text, Decl: "varchar(20)", Size: 20}, ""},
		{schema.Column{Type: schema.Real, Decl: "real", Size: 4}, "is real, which rounds"},
		{schema.Column{Type: schema.Number, Decl: "numeric(12,2)"}, "is numeric(12,2), which rounds"},
		{schema.Column{Type: schema.Int, Decl: "bigint", Generated: true}, "is computed"},
		{schema.Column{Type: schema.Instant, Decl: "timestamptz"}, "writes otherwise"},
	} {
		c.column.Name = "v"
		err := CheckVersion(&schema.Table{Name: "t", Exists: true, Columns: []schema.Column{c.column}}, Options{Version: "v", Scope: RowScope})
		if got := fmt.Sprint(err); (err == nil) != (c.want == "") || !strings.Contains(got, c.want) && err != nil {
			t.Errorf("%s, generated %v: %v, want %q", c.column.Decl, c.column.Generated, err, c.want)
		}
	}
}

// A batch is read ahead by others while it is resolved.
func TestResolver_LeavesTheBatchAsItWas(t *testing.T) {
	f := NewFolder(&feed.Names{}, schema.Table{Name: "t"}, Options{Key: []string{"id"}, DeleteField: "op", DeleteValue: "delete", Version: "v", Scope: ColumnScope, Columns: AddColumns, MaxColumns: 9, Log: logtest.New(t)})
	var b Batch
	for i, line := range []string{`{"id":1,"v":7,"a":1}`, `{"id":1,"v":5,"op":"delete"}`} {
		testcheck.NoError(t, f.Fold(&b, []byte(line), Place{Line: int64(i + 1)}))
	}
	f.Seal(&b)
	columns, bytes := len(b.Table.Columns), b.Bytes()
	table := b.Table.Clone()
	table.Columns = append(table.Columns, schema.New("other", false))
	r := NewResolver(&b, []string{"other", "a"}, &table)
	s := state{live: []byte("9"), columns: [][]byte{[]byte("4"), []byte("9")}}
	res, err := r.Resolve(&b.rows[0], Stored{Exists: true, State: s.encode()})
	if err != nil || res.Unchanged || res.Row.Deleted || res.Row.Replaces {
		t.Fatalf("%+v, %v", res, err)
	}
	if got := r.Batch().Value(&res.Row, columns); got != nil || !r.Batch().Initial(&res.Row, columns) {
		t.Errorf("the delete leaves %q of the column that the batch did not know", got)
	}
	if len(b.Table.Columns) != columns || b.Bytes() != bytes {
		t.Errorf("the batch has %d columns and %d bytes, and had %d and %d", len(b.Table.Columns), b.Bytes(), columns, bytes)
	}
}
