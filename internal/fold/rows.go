package fold

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
)

// A rowStore has the rows of a batch and an index of their keys.
type rowStore struct {
	all   []Row
	index []slot
	cells cellStore // of the rows and their versions
}

// A slot of the index, which uses open addressing by the hash of the key. Comparing tags skips most other rows
// without loading them from memory.
type slot struct {
	row int32 // number of the row + 1; 0 means empty
	tag uint32
}

// perRow is the memory of a row besides its values; as much again may be room to grow. perIndexed is the most that
// its index slots take.
const (
	perSlot    = 8 // bytes
	perRow     = 64
	perIndexed = 4 * perSlot
)

func tagOf(hash uint64) uint32 { return uint32(hash >> 32) }

var seed = maphash.MakeSeed() // random, so no feed can choose keys that collide

// row returns the number of the row with a key, and creates it if it is missing.
func (b *Batch) row(key []byte) (n int32, made bool) {
	s := &b.rows
	if 2*len(s.all) >= len(s.index) {
		s.rehash(max(1024, 2*len(s.index)))
	}
	h := maphash.Bytes(seed, key)
	at := s.seek(h, key)
	if at.row == 0 {
		s.all = append(s.all, Row{Key: b.arena.get(b.arena.put(key)), hash: h})
		*at, made = slot{int32(len(s.all)), tagOf(h)}, true
	}
	return at.row - 1, made
}

// appendRow adds a row to a table without a key. Its number serves as its key, so rows are in message order and all
// differ.
func (b *Batch) appendRow() int32 {
	var key [8]byte
	n := len(b.rows.all)
	binary.BigEndian.PutUint64(key[:], uint64(n))
	b.rows.all = append(b.rows.all, Row{Key: b.arena.get(b.arena.put(key[:]))})
	return int32(n)
}

// find returns the row with a key, nil if it is missing.
func (s *rowStore) find(key []byte) *Row {
	if len(s.all) == 0 {
		return nil
	}
	at := s.seek(maphash.Bytes(seed, key), key)
	if at.row == 0 {
		return nil
	}
	return &s.all[at.row-1]
}

// seek returns the slot of a key with this hash, or the empty slot where it belongs.
func (s *rowStore) seek(hash uint64, key []byte) *slot {
	mask := uint64(len(s.index) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		at := &s.index[i]
		if at.row == 0 || at.tag == tagOf(hash) && bytes.Equal(s.all[at.row-1].Key, key) {
			return at
		}
	}
}

// likely returns the row whose key probably has this hash, or nil. It compares only tags.
func (s *rowStore) likely(hash uint64) *Row {
	mask := uint64(len(s.index) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		switch at := s.index[i]; {
		case at.row == 0:
			return nil
		case at.tag == tagOf(hash):
			return &s.all[at.row-1]
		}
	}
}

func (s *rowStore) rehash(size int) {
	if size == len(s.index) {
		clear(s.index)
	} else {
		s.index = make([]slot, size)
	}
	mask := uint64(size - 1)
	for n := range s.all {
		h := s.all[n].hash
		i := h & mask
		for s.index[i].row != 0 {
			i = (i + 1) & mask
		}
		s.index[i] = slot{int32(n + 1), tagOf(h)}
	}
}

func (s *rowStore) bytes() int { return s.cells.bytes() + perSlot*len(s.index) + perRow*cap(s.all) }

func (s *rowStore) reset() {
	clear(s.index)
	clear(s.all)
	s.all = s.all[:0]
	s.cells.reset()
}

// A cellStore allocates the cells of rows: one per column, with the address of its value. Reset keeps its memory.
type cellStore struct {
	slabs     [][]ref
	begun     int   // number of slabs in use
	free      []ref // the rest of the last slab in use
	allocated int   // number of cells allocated
}

// at returns the cell of a column. If the row has too few cells, it gets width ones.
func (s *cellStore) at(cells *[]ref, col int32, width int) *ref {
	if int(col) >= len(*cells) {
		s.widen(cells, width)
	}
	return &(*cells)[col]
}

func (s *cellStore) widen(cells *[]ref, width int) {
	if len(s.free) < width {
		s.beginSlab(width)
	}
	wide := s.free[:width:width]
	s.free = s.free[width:]
	s.allocated += width
	copy(wide, *cells)
	*cells = wide
}

func (s *cellStore) beginSlab(width int) {
	if s.begun < len(s.slabs) && len(s.slabs[s.begun]) >= width {
		clear(s.slabs[s.begun])
	} else {
		s.slabs = append(s.slabs[:s.begun], make([]ref, max(width, 64<<10/4)))
	}
	s.free = s.slabs[s.begun]
	s.begun++
}

func (s *cellStore) bytes() int { return 4 * s.allocated }

func (s *cellStore) reset() { *s = cellStore{slabs: s.slabs} }
