package fold

import (
	"hash/maphash"

	"github.com/weirsync/weir/internal/feed"
)

// warmLines is how many lines are warmed at a time.
const warmLines = 32

// inCache is the size in bytes below which a batch needs no warming.
const inCache = 1 << 20

// Warm reads the memory that folding lines[at] and the next ones will touch into the CPU's cache: first the
// keys of several lines, then their index slots, rows, cells and values, because loads that do not depend on each other
// overlap. Call it for each line in order. Without it, a file about many rows in no order takes 1.4 times the CPU
// (docs/dev/optimizations.md). It has no other effect.
func (f *Folder) Warm(b *Batch, lines []feed.Line, at int) {
	if at%warmLines != 0 || len(f.now.keys) != 1 || len(b.rows.all) == 0 || b.arena.bytes() < inCache {
		return
	}
	var likely [warmLines]*Row
	rows := likely[:0]
	lines = lines[at:min(at+warmLines, len(lines))]
	for i := range lines {
		if k := f.keyOf(&lines[i]); k != nil {
			if r := b.rows.likely(maphash.Bytes(seed, k)); r != nil {
				rows = append(rows, r)
			}
		}
	}
	b.Warm(rows)
}

// Warm reads the keys and values of some rows into the CPU's cache, as [Folder.Warm] does.
func (b *Batch) Warm(rows []*Row) {
	sum := 0
	for _, r := range rows {
		if n := len(r.cells); n > 0 {
			sum += int(r.cells[0]) + int(r.cells[n-1])
		}
		if len(r.Key) > 0 { // an empty text is a key too
			sum += int(r.Key[0])
		}
	}
	for _, r := range rows {
		for _, c := range r.cells {
			if c != 0 {
				sum += int(*b.arena.at(c))
			}
		}
	}
	b.warmed = sum
}

// keyOf returns the text of a line's key if it is a plain string in the same position as in the last line, else nil.
func (f *Folder) keyOf(l *feed.Line) []byte {
	key := f.now.keys[0]
	if uint(key) >= uint(len(l.Fields)) || l.Fields[key].Kind != feed.String {
		return nil
	}
	v := l.Fields[key].Value
	return v[1 : len(v)-1]
}
