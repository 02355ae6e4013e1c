package fold

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/logtest"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/testcheck"
)

// TestFold_StopsBeforeAnArenaIsFull: a value past 32 GiB would be written over others.
// The chunks before the last are left out.
func TestFold_StopsBeforeAnArenaIsFull(t *testing.T) {
	f := NewFolder(&feed.Names{}, schema.Table{Name: "t"}, Options{Limits: schema.Limits{Untyped: true}, Key: []string{"id"}, Columns: AddColumns, MaxColumns: 9, Log: logtest.New(t)})
	var b Batch
	b.arena.chunks = make([][]byte, maxArena/chunkSize)
	b.arena.next = maxArena - align
	b.arena.chunks[len(b.arena.chunks)-1] = make([]byte, chunkSize)
	testcheck.NoError(t, f.Fold(&b, []byte(`{"id":"x","a":"the last"}`), Place{}))
	if err := f.Fold(&b, []byte(`{"id":"x","a":"too many"}`), Place{}); err != errFull {
		t.Errorf("a batch of %d bytes takes a line: %v", b.arena.bytes(), err)
	}
	f.Seal(&b)
	if r := &b.rows[0]; string(r.Key) != "x" || string(b.Value(r, 1)) != `"the last"` {
		t.Errorf("%s is %s", r.Key, b.Value(r, 1))
	}
}

// TestArena_AddressesReachItsEnd puts a value where the addresses end.
func TestArena_AddressesReachItsEnd(t *testing.T) {
	const end = 1 << 32 * align
	a := arena{chunks: make([][]byte, end/chunkSize), next: end - 2*align}
	a.chunks[len(a.chunks)-1] = make([]byte, chunkSize)
	if r := a.put([]byte("the last")); string(a.get(r)) != "the last" || a.next != end {
		t.Errorf("%d is %s, and the arena ends at %d", r, a.get(r), a.next)
	}
}

// TestBatch_KeysOfOneHash: rows whose keys have the same hash, and the same tag, are told apart by the keys, before
// and after the index has grown.
func TestBatch_KeysOfOneHash(t *testing.T) {
	const keys, others = 300, 1 << 32
	hash := func(n int) uint64 { return uint64(n%3) * others } // of one place in the index
	key := func(n int) []byte { return fmt.Append(nil, n) }
	b := new(Batch)
	b.rehash(1024)
	for n := range keys {
		s := b.seek(hash(n), key(n))
		if s.row != 0 {
			t.Fatalf("key %d has the row %d before it comes", n, s.row)
		}
		b.rows = append(b.rows, Row{Key: key(n), hash: hash(n)})
		*s = slot{int32(n + 1), tagOf(hash(n))}
	}
	for _, size := range []int{1024, 1024, 4096} {
		for n := range keys {
			if s := b.seek(hash(n), key(n)); s.row != int32(n+1) {
				t.Fatalf("of %d places: key %d has the row %d", size, n, s.row)
			}
			if s := b.seek(hash(n+1), key(n)); s.row != 0 {
				t.Fatalf("of %d places: key %d with another hash has the row %d", size, n, s.row)
			}
		}
		if n := b.likely(3 * others); n >= 0 {
			t.Fatalf("of %d places: a tag that no row has is of row %d", size, n)
		}
		b.rehash(size)
	}
}

// TestBatch_ResetGivesMemoryBack: a batch keeps its memory for the next content of its size, but not for a small one.
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
	if got := len(b.arena.chunks); got != 0 || cap(b.rows) != 0 {
		t.Errorf("after a small content it holds %d chunks and %d rows, want none", got, cap(b.rows))
	}
	fill(10)
	b.Reset()
	if got := len(b.arena.chunks); got != 1 {
		t.Errorf("a small batch holds %d chunks, want the one that it had", got)
	}
}

// TestBatch_SortedIsTheKeyOrder of rows whose keys share beginnings of any length, hold NULs, and are each
// other's beginnings.
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

func BenchmarkSorted(b *testing.B) {
	batch := keyed(schema.Text)
	for _, i := range rand.New(rand.NewPCG(1, 1)).Perm(50_000) {
		batch.row(fmt.Appendf(nil, "FLT%09d-17636", 100_000_000+i))
	}
	for b.Loop() {
		batch.Sorted()
	}
}

// keyed returns a batch for a table with one column, its key.
func keyed(of schema.Type) *Batch {
	key := schema.New("id", true)
	key.Type = of
	return &Batch{Table: schema.Table{Columns: []schema.Column{key}, Key: []int{0}}}
}
