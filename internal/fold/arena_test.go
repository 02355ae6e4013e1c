package fold

import (
	"testing"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/logtest"
	"github.com/weirsync/weir/internal/schema"
)

// TestFold_StopsBeforeAnArenaIsFull: a value past 32 GiB would be written over others.
// The chunks before the last are left out.
func TestFold_StopsBeforeAnArenaIsFull(t *testing.T) {
	f := NewFolder(&feed.Names{}, schema.Table{Name: "t"}, Options{Limits: schema.Limits{Untyped: true}, Key: []string{"id"}, Columns: AddColumns, MaxColumns: 9, Log: logtest.New(t)})
	var b Batch
	b.arena.chunks = make([][]byte, maxArena/chunkSize)
	b.arena.next = maxArena - align
	b.arena.chunks[len(b.arena.chunks)-1] = make([]byte, chunkSize)
	if err := f.Fold(&b, []byte(`{"id":"x","a":"the last"}`), Place{}); err != nil {
		t.Fatal(err)
	}
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
