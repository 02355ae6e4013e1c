package fold

import (
	"bytes"
	"hash/maphash"
)

// A slot of the index, which is open addressing by the hash of the key. The tag tells a key's row from those that
// stand before it without fetching those from memory.
type slot struct {
	row int32 // its number + 1; 0 is empty
	tag uint32
}

const perSlot = 8 // bytes

func tagOf(hash uint64) uint32 { return uint32(hash >> 32) }

var seed = maphash.MakeSeed() // so that no feed can choose ids that collide

// row returns the number of the key's row, which it makes where there is none.
func (b *Batch) row(key []byte) (n int, made bool) {
	if 2*len(b.rows) >= len(b.index) {
		b.rehash(max(1024, 2*len(b.index)))
	}
	h := maphash.Bytes(seed, key)
	s := b.seek(h, key)
	if s.row == 0 {
		b.rows = append(b.rows, Row{Key: b.arena.get(b.arena.put(key)), hash: h})
		*s, made = slot{int32(len(b.rows)), tagOf(h)}, true
	}
	return int(s.row) - 1, made
}

// find returns the row of a key, nil where the batch has none.
func (b *Batch) find(key []byte) *Row {
	if len(b.rows) == 0 {
		return nil
	}
	s := b.seek(maphash.Bytes(seed, key), key)
	if s.row == 0 {
		return nil
	}
	return &b.rows[s.row-1]
}

// seek returns the slot of a key with this hash, or the empty one that it would get.
func (b *Batch) seek(hash uint64, key []byte) *slot {
	mask := uint64(len(b.index) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		s := &b.index[i]
		if s.row == 0 || s.tag == tagOf(hash) && bytes.Equal(b.rows[s.row-1].Key, key) {
			return s
		}
	}
}

// likely is the number of the row whose key has this hash, as far as the index tells, or -1.
func (b *Batch) likely(hash uint64) int32 {
	mask := uint64(len(b.index) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		if s := b.index[i]; s.row == 0 || s.tag == tagOf(hash) {
			return s.row - 1
		}
	}
}

func (b *Batch) rehash(size int) {
	if size == len(b.index) {
		clear(b.index)
	} else {
		b.index = make([]slot, size)
	}
	mask := uint64(size - 1)
	for n := range b.rows {
		h := b.rows[n].hash
		i := h & mask
		for b.index[i].row != 0 {
			i = (i + 1) & mask
		}
		b.index[i] = slot{int32(n + 1), tagOf(h)}
	}
}
