package fold

import (
	"hash/maphash"
	"unsafe"

	"github.com/weirsync/weir/internal/feed"
)

// cpuPrefetchStep is the number of lines, or rows, between two steps of prefetching for the same one.
const cpuPrefetchStep = 4

// inCache is the size in bytes below which a batch needs no prefetching.
const inCache = 1 << 20

// An upcoming line will be folded soon.
type upcoming struct {
	hash uint64 // of its key; 0 if unknown
	row  int32  // number of the row that it probably changes; -1 if unknown. It may belong to an earlier batch
}

// CPUPrefetch loads the memory that folding the lines after lines[at] will touch into the CPU's cache: the text of
// the key, its index slot, the row, the row's key and cells, and their values, each step when the one before has
// probably arrived. Call it for each line in order. Without it, a file about many rows in no order takes 1.36 times as
// long to sync (docs/dev/optimizations.md). It has no other effect.
func (f *Folder) CPUPrefetch(b *Batch, lines []feed.Line, at int) {
	if len(f.now.keys) != 1 || len(b.rows.all) == 0 || b.arena.bytes() < inCache {
		return
	}
	last := at + 5*cpuPrefetchStep
	from := last
	if at == 0 {
		from = 0
	}
	for i := from; i <= last; i++ {
		if k := f.keyOf(lines, i); k != nil {
			cpuPrefetch(unsafe.Pointer(unsafe.SliceData(k)))
		}
		f.prefetchIndex(b, lines, i-cpuPrefetchStep)
		f.prefetchRow(b, lines, i-2*cpuPrefetchStep)
		f.prefetchKey(b, lines, i-3*cpuPrefetchStep)
		f.prefetchValues(b, lines, i-4*cpuPrefetchStep)
	}
}

// keyOf returns the text of a line's key if it is a plain string in the same position as in the last line, else nil.
func (f *Folder) keyOf(lines []feed.Line, i int) []byte {
	if uint(i) >= uint(len(lines)) {
		return nil
	}
	fields, key := lines[i].Fields, f.now.keys[0]
	if uint(key) >= uint(len(fields)) || fields[key].Kind != feed.String {
		return nil
	}
	v := fields[key].Value
	return v[1 : len(v)-1]
}

func (f *Folder) upcoming(i int) *upcoming { return &f.ahead[i%len(f.ahead)] }

func (f *Folder) prefetchIndex(b *Batch, lines []feed.Line, i int) {
	if uint(i) >= uint(len(lines)) {
		return
	}
	u := f.upcoming(i)
	*u = upcoming{row: none}
	if k := f.keyOf(lines, i); k != nil {
		u.hash = maphash.Bytes(seed, k)
		cpuPrefetch(unsafe.Pointer(&b.rows.index[u.hash&uint64(len(b.rows.index)-1)]))
	}
}

func (f *Folder) prefetchRow(b *Batch, lines []feed.Line, i int) {
	if uint(i) >= uint(len(lines)) {
		return
	}
	if u := f.upcoming(i); u.hash != 0 {
		if u.row = b.rows.likely(u.hash); u.row >= 0 {
			cpuPrefetch(unsafe.Pointer(&b.rows.all[u.row]))
		}
	}
}

// upcomingRow returns the row that a line probably changes, or nil.
func (f *Folder) upcomingRow(b *Batch, lines []feed.Line, i int) *Row {
	if uint(i) >= uint(len(lines)) {
		return nil
	}
	n := f.upcoming(i).row
	if uint(n) >= uint(len(b.rows.all)) {
		return nil
	}
	return &b.rows.all[n]
}

func (f *Folder) prefetchKey(b *Batch, lines []feed.Line, i int) {
	if r := f.upcomingRow(b, lines, i); r != nil {
		cpuPrefetch(unsafe.Pointer(unsafe.SliceData(r.Key)))
		prefetchCells(r.cells)
		b.prefetchVersions(r)
	}
}

func (f *Folder) prefetchValues(b *Batch, lines []feed.Line, i int) {
	r := f.upcomingRow(b, lines, i)
	if r == nil {
		return
	}
	if r.versions > 0 {
		vs := b.versions.of(r)
		cpuPrefetch(unsafe.Pointer(b.arena.at(vs.live)))
		prefetchCells(vs.cells)
	}
	byNumber, last := f.fields.byNumber, ref(0)
	for _, fd := range lines[i].Fields {
		if uint(fd.Name) >= uint(len(byNumber)) || byNumber[fd.Name] < 0 {
			continue
		}
		if c := f.fields.all[byNumber[fd.Name]].col; uint(c) < uint(len(r.cells)) {
			if v := r.cells[c]; v/refsALine != last/refsALine {
				cpuPrefetch(unsafe.Pointer(b.arena.at(v)))
				last = v
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
		cpuPrefetch(unsafe.Pointer(&cells[c]))
	}
}

func (b *Batch) prefetchVersions(r *Row) {
	if r.versions > 0 {
		cpuPrefetch(unsafe.Pointer(b.versions.of(r)))
	}
}
