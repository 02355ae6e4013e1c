package fold

import (
	"bytes"
	"encoding/binary"
	"testing"
)

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
