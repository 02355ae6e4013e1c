package fold

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/schema"
)

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
