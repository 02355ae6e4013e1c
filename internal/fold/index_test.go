package fold

import (
	"fmt"
	"testing"
)

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
