package fold

import (
	"hash/maphash"
	"unsafe"

	"github.com/weirsync/weir/internal/feed"
)

// MaxPrefetch is how many lines [Folder.Prefetch] takes.
const MaxPrefetch = 8

// inCache is how large a batch is, in bytes, that needs no prefetching.
const inCache = 1 << 20

// Prefetch has the memory fetched that folding the next lines will touch, at most
// MaxPrefetch of them, where that can be told: a row, its key, its cells and their
// values follow from one another, and the fold would wait for each. A hot feed
// folds in a seventh less time. It changes nothing.
func (f *Folder) Prefetch(b *Batch, lines []feed.Line) {
	if len(f.keys) != 1 || b.arena.bytes() < inCache {
		return
	}
	var rows [MaxPrefetch]*Row
	for i := range lines {
		rows[i] = b.guess(f.keys[0], &lines[i])
	}
	for _, r := range rows {
		if r != nil {
			prefetch(unsafe.Pointer(unsafe.SliceData(r.Key)))
			prefetchCells(r.cells)
			b.prefetchVersions(r)
		}
	}
	for i, r := range rows {
		if r == nil {
			continue
		}
		if r.versions > 0 {
			vs := &b.versions[r.versions-1]
			prefetch(unsafe.Pointer(b.arena.at(vs.live)))
			prefetchCells(vs.cells)
		}
		last := ref(0)
		for _, fd := range lines[i].Fields {
			if uint(fd.Name) >= uint(len(f.byNumber)) || f.byNumber[fd.Name] < 0 {
				continue
			}
			if c := f.fields[f.byNumber[fd.Name]].col; uint(c) < uint(len(r.cells)) {
				if v := r.cells[c]; v/refsALine != last/refsALine {
					prefetch(unsafe.Pointer(b.arena.at(v)))
					last = v
				}
			}
		}
	}
}

const (
	cellsALine = 64 / int(unsafe.Sizeof(ref(0)))
	refsALine  = 64 / align
)

func prefetchCells(cells []ref) {
	for c := 0; c < len(cells); c += cellsALine {
		prefetch(unsafe.Pointer(&cells[c]))
	}
}

func (b *Batch) prefetchVersions(r *Row) {
	if r.versions > 0 {
		prefetch(unsafe.Pointer(&b.versions[r.versions-1]))
	}
}

// PrefetchValues has the memory fetched that [Batch.Value] of rows will touch, of which the first
// is at hand: the row itself, then its cells, then their values, each when the one before is likely there. A whole run of a hot
// feed takes a fifteenth less CPU (BenchmarkSync/hot, BenchmarkSync/shapes). It changes nothing.
func (b *Batch) PrefetchValues(rows []*Row) {
	const step = 4 // rows
	if len(rows) > 3*step {
		prefetch(unsafe.Pointer(rows[3*step]))
	}
	if len(rows) > 2*step {
		prefetchCells(rows[2*step].cells)
		b.prefetchVersions(rows[2*step])
	}
	if len(rows) <= step {
		return
	}
	if n := rows[step].versions; n > 0 {
		prefetchCells(b.versions[n-1].cells)
	}
	last := ref(0)
	for _, v := range rows[step].cells {
		if v/refsALine != last/refsALine {
			prefetch(unsafe.Pointer(b.arena.at(v)))
			last = v
		}
	}
}

// guess is the row that a line likely goes to, if its key is at the given field
// and a plain string, or nil. The row's memory is on its way.
func (b *Batch) guess(key int32, l *feed.Line) *Row {
	if uint(key) >= uint(len(l.Fields)) || l.Fields[key].Kind != feed.String || len(b.rows) == 0 {
		return nil
	}
	v := l.Fields[key].Value
	n := b.index[maphash.Bytes(seed, v[1:len(v)-1])&uint64(len(b.index)-1)] - 1
	if n < 0 {
		return nil
	}
	prefetch(unsafe.Pointer(&b.rows[n]))
	return &b.rows[n]
}
