package fold

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/test/logtest"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// TestFold_StopsBeforeAnArenaIsFull: a value past 32 GiB would overwrite others. Only the last chunk is allocated.
func TestFold_StopsBeforeAnArenaIsFull(t *testing.T) {
	f := NewFolder(&feed.Names{}, schema.Table{Name: "t"}, Options{Key: []string{"id"}, Rules: Rules{UnknownFields: AddUnknown, MaxColumns: 9}, Limits: schema.Limits{Untyped: true}, Log: logtest.New(t)})
	var b Batch
	b.arena.chunks = make([][]byte, maxArena/chunkSize)
	b.arena.next = maxArena - align
	b.arena.chunks[len(b.arena.chunks)-1] = make([]byte, chunkSize)
	testcheck.NoError(t, add(f, &b, `{"id":"x","a":"the last"}`))
	if err := add(f, &b, `{"id":"x","a":"too many"}`); err != errFull {
		t.Errorf("a batch of %d bytes accepts a line: %v", b.arena.bytes(), err)
	}
	f.Seal(&b)
	if r := &b.rows.all[0]; string(r.Key) != "x" || string(b.Value(r, 1)) != `"the last"` {
		t.Errorf("%s is %s", r.Key, b.Value(r, 1))
	}
}

// TestArena_AddressesReachItsEnd puts a value at the last address.
func TestArena_AddressesReachItsEnd(t *testing.T) {
	const end = 1 << 32 * align
	a := arena{chunks: make([][]byte, end/chunkSize), next: end - 2*align}
	a.chunks[len(a.chunks)-1] = make([]byte, chunkSize)
	if r := a.put([]byte("the last")); string(a.get(r)) != "the last" || a.next != end {
		t.Errorf("%d is %s, and the arena ends at %d", r, a.get(r), a.next)
	}
}

// TestBatch_KeysOfOneHash: rows with the same hash and tag are distinguished by their keys, before and after the
// index grows.
func TestBatch_KeysOfOneHash(t *testing.T) {
	const keys, others = 300, 1 << 32
	hash := func(n int) uint64 { return uint64(n%3) * others } // all start at the same slot
	key := func(n int) []byte { return fmt.Append(nil, n) }
	b := new(Batch)
	b.rows.rehash(1024)
	for n := range keys {
		s := b.rows.seek(hash(n), key(n))
		if s.row != 0 {
			t.Fatalf("key %d has the row %d before it was added", n, s.row)
		}
		b.rows.all = append(b.rows.all, Row{Key: key(n), hash: hash(n)})
		*s = slot{int32(n + 1), tagOf(hash(n))}
	}
	for _, size := range []int{1024, 1024, 4096} {
		for n := range keys {
			if s := b.rows.seek(hash(n), key(n)); s.row != int32(n+1) {
				t.Fatalf("%d slots: key %d has the row %d", size, n, s.row)
			}
			if s := b.rows.seek(hash(n+1), key(n)); s.row != 0 {
				t.Fatalf("%d slots: key %d with another hash has the row %d", size, n, s.row)
			}
		}
		if r := b.rows.likely(3 * others); r != nil {
			t.Fatalf("%d slots: an unused tag finds row %s", size, r.Key)
		}
		b.rows.rehash(size)
	}
}

// TestBatch_ResetGivesMemoryBack: a batch keeps its memory for content of the same size, but not after a small
// content.
func TestBatch_ResetGivesMemoryBack(t *testing.T) {
	b, value := new(Batch), bytes.Repeat([]byte("x"), 1000)
	fill := func(rows int) {
		for i := range rows {
			b.row(binary.BigEndian.AppendUint32(nil, uint32(i)))
			b.arena.put(value)
		}
	}
	const rows = 2 * keptArena / 1000
	fill(rows)
	held := len(b.arena.chunks)
	b.Reset()
	if got := len(b.arena.chunks); got != held {
		t.Errorf("after a large content it holds %d chunks, want the %d that it had", got, held)
	}
	fill(10)
	b.Reset()
	if got := len(b.arena.chunks); got != 0 || cap(b.rows.all) != 0 {
		t.Errorf("after a small content it holds %d chunks and %d rows, want none", got, cap(b.rows.all))
	}
	fill(10)
	b.Reset()
	if got := len(b.arena.chunks); got != 1 {
		t.Errorf("a small batch holds %d chunks, want the one that it had", got)
	}
}

// TestBatch_SortedIsTheKeyOrder: also for keys that share prefixes, contain NULs, or are prefixes of each other.
func TestBatch_SortedIsTheKeyOrder(t *testing.T) {
	for n := range 2000 {
		rnd := rand.New(rand.NewPCG(uint64(n), 1))
		b := keyed(schema.Text)
		if rnd.IntN(2) == 0 {
			b = keyed(schema.Int)
		}
		shared := strings.Repeat("1", rnd.IntN(300))
		for range rnd.IntN(50) {
			key := []byte(shared)
			for range rnd.IntN(12) {
				key = append(key, []byte{0, '-', '1', '2', 0xff}[rnd.IntN(5)])
			}
			b.row(key)
		}
		rows, compare := b.Sorted(), KeyOrder(&b.Table)
		if len(rows) != b.Rows() {
			t.Fatalf("run %d: %d rows of %d", n, len(rows), b.Rows())
		}
		for i := range rows[:max(0, len(rows)-1)] {
			if compare(rows[i].Key, rows[i+1].Key) >= 0 {
				t.Fatalf("run %d: %q comes before %q", n, rows[i].Key, rows[i+1].Key)
			}
		}
	}
}

// keyed returns a batch for a table whose only column is its key.
func keyed(of schema.Type) *Batch {
	key := schema.New("id", true)
	key.Type = of
	return &Batch{Table: schema.Table{Columns: []schema.Column{key}, Key: []int{0}}}
}

// FuzzState: each version is decoded as it was encoded, next to any other, and different states have different
// encodings.
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
			f.Errorf("%q and %q have the same encoding", text, same)
		}
		written[string(coded)] = text
		var is state
		if err := is.decode(coded, 6); err != nil || !bytes.Equal(is.live, s.live) || !bytes.Equal(is.tomb, s.tomb) || !slices.EqualFunc(is.columns, s.columns, bytes.Equal) {
			f.Errorf("%q and %q became %q %q %q, %v", text, other, is.live, is.tomb, is.columns, err)
		}
		f.Add(coded, uint8(6))
		f.Add(coded[:len(coded)/2], uint8(6)) // damaged, or another state
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

// TestState_Size: states are short, because updates in random order rewrite every page of the table of states.
func TestState_Size(t *testing.T) {
	for version, want := range map[string]int{"1000000000": 18, "2026-11-23T05:15:07Z": 28, "17.25": 13, "b": 9} {
		s := state{live: []byte(version), columns: [][]byte{nil}}
		for range 20 {
			s.columns = append(s.columns, s.live)
		}
		if coded := s.encode(); len(coded) != want {
			t.Errorf("the state of a row of version %s has %d bytes: %q", version, len(coded), coded)
		}
	}
}

// TestCheckVersion: a version of the whole row needs a column that stores it unchanged.
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
		{schema.Column{Type: schema.Instant, Decl: "timestamptz"}, "formats differently"},
	} {
		c.column.Name = "v"
		err := CheckVersion(&schema.Table{Name: "t", Exists: true, Columns: []schema.Column{c.column}}, Options{Rules: Rules{Scope: RowScope}, Version: "v"})
		if got := fmt.Sprint(err); (err == nil) != (c.want == "") || !strings.Contains(got, c.want) && err != nil {
			t.Errorf("%s, generated %v: %v, want %q", c.column.Decl, c.column.Generated, err, c.want)
		}
	}
}

// add folds a line in which v is the version, and op says that it deletes.
func add(f *Folder, b *Batch, line string) error {
	var l feed.Line
	l.Scan(feed.NewScanner(f.fields.names), nil, []byte(line))
	c := Change{Fields: l.Fields, Text: l.Text}
	if v := l.Field(f.fields.names.Number("v")); v != nil {
		c.Version = *v
	}
	if l.Field(f.fields.names.Number("op")) != nil {
		c.Op = Delete
	}
	return addChange(f, b, c)
}

// addChange folds a change.
func addChange(f *Folder, b *Batch, c Change) error {
	_, err := Folders{f}.Add(&Set{Batches: []*Batch{b}, Unsplit: true, messages: b.Messages}, []TableChange{{Change: c}}, Place{Line: b.Messages + 1})
	return err
}

// Other goroutines read the batch ahead while it is resolved.
func TestResolver_LeavesTheBatchAsItWas(t *testing.T) {
	f := NewFolder(&feed.Names{}, schema.Table{Name: "t"}, Options{Key: []string{"id"}, Rules: Rules{Scope: ColumnScope, UnknownFields: AddUnknown, MaxColumns: 9}, Version: "v", Log: logtest.New(t)})
	var b Batch
	for _, line := range []string{`{"id":1,"v":7,"a":1}`, `{"id":1,"v":5,"op":"delete"}`} {
		testcheck.NoError(t, add(f, &b, line))
	}
	f.Seal(&b)
	columns, bytes := len(b.Table.Columns), b.Bytes()
	table := b.Table.Clone()
	table.Columns = append(table.Columns, schema.New("other", false))
	r := NewResolver(&b, []string{"other", "a"}, &table)
	s := state{live: []byte("9"), columns: [][]byte{[]byte("4"), []byte("9")}}
	res, err := r.Resolve(&b.rows.all[0], Stored{Exists: true, State: s.encode()})
	if err != nil || res.Unchanged || res.Row.Deleted || res.Row.Replaces {
		t.Fatalf("%+v, %v", res, err)
	}
	if got := r.Batch().Value(&res.Row, columns); got != nil || !r.Batch().Initial(&res.Row, columns) {
		t.Errorf("the delete leaves %q in the column that the batch did not know", got)
	}
	if len(b.Table.Columns) != columns || b.Bytes() != bytes {
		t.Errorf("the batch has %d columns and %d bytes, and had %d and %d", len(b.Table.Columns), b.Bytes(), columns, bytes)
	}
}

// TestResolver_AnOldDeleteLeavesARowThatAnotherNeeds: a reference inserts the row again, and a delete that is older than
// the database's does not end it.
func TestResolver_AnOldDeleteLeavesARowThatAnotherNeeds(t *testing.T) {
	f := NewFolder(&feed.Names{}, schema.Table{Name: "t"}, Options{Key: []string{"id"}, Rules: Rules{Scope: ColumnScope, UnknownFields: AddUnknown, MaxColumns: 9}, Version: "v", Log: logtest.New(t)})
	var b Batch
	var l feed.Line
	l.Scan(feed.NewScanner(f.fields.names), nil, []byte(`{"id":1}`))
	testcheck.NoError(t, addChange(f, &b, Change{Fields: l.Fields, Text: l.Text, Op: Ensure}))
	testcheck.NoError(t, add(f, &b, `{"id":1,"v":5,"op":"delete"}`))
	f.Seal(&b)
	s := state{tomb: []byte("9")}
	res, err := NewResolver(&b, nil, &b.Table).Resolve(&b.rows.all[0], Stored{State: s.encode()})
	if err != nil || res.Unchanged || res.Row.Deleted {
		t.Errorf("%+v, %v", res, err)
	}
}
