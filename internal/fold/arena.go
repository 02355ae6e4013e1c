package fold

import "encoding/binary"

const (
	chunkSize = 1 << 20 // bytes
	align     = 8       // a ref counts in these, so that 32 bits reach 32 GiB
	perChunk  = chunkSize / align

	// maxArena is what an arena holds at most, in bytes, before one more line: one of
	// 256 MiB takes less than what is left of the 32 GiB.
	maxArena = 28 << 30
)

// ref is the address of a value in an arena; 0 is none.
type ref uint32

// onlyInitial is the address, in each arena, of the value that is nothing but initial. Rows
// share it.
const onlyInitial ref = 1

// An arena holds values, each behind a 4-byte length. Its chunks are kept over
// a reset; values larger than a chunk have memory of their own, which is not.
type arena struct {
	chunks [][]byte
	next   int // bytes used of all chunks; the first 8 stay free, for ref 0
}

// begin makes an arena that has a chunk an empty one.
func (a *arena) begin() {
	a.next = align
	a.put([]byte{initial})
}

func (a *arena) reset() {
	for i, c := range a.chunks {
		if len(c) != chunkSize {
			a.chunks = a.chunks[:i] // large values are rare: forget all behind the first
			break
		}
		poison(c[:min(len(c), max(0, a.next-i*chunkSize))])
	}
	if len(a.chunks) > 0 {
		a.begin()
	}
}

// bytes returns what the arena's values take.
func (a *arena) bytes() int { return a.next }

func room(n int) int { return (4 + n + align - 1) &^ (align - 1) }

// put copies v into the arena.
func (a *arena) put(v []byte) ref {
	n := room(len(v))
	if len(a.chunks) == 0 {
		a.grow(0, chunkSize)
		a.begin()
	}
	if off := a.next % chunkSize; off+n > chunkSize && off > 0 {
		a.next += chunkSize - off
	}
	at := a.next / chunkSize
	if at >= len(a.chunks) || len(a.chunks[at])-a.next%chunkSize < n {
		a.grow(at, n)
	}
	r := ref(a.next / align)
	m := a.chunks[at][a.next%chunkSize:]
	binary.LittleEndian.PutUint32(m, uint32(len(v)))
	copy(m[4:], v)
	a.next += n
	return r
}

// grow makes room for n bytes from chunk at on. A large value spans several
// chunks of one piece of memory, so that its address stays a simple sum.
func (a *arena) grow(at, n int) {
	a.chunks = a.chunks[:at]
	size := (n + chunkSize - 1) / chunkSize * chunkSize
	piece := make([]byte, size)
	for ; len(piece) > chunkSize; piece = piece[chunkSize:] {
		a.chunks = append(a.chunks, piece)
	}
	a.chunks = append(a.chunks, piece)
}

// at returns where r is.
func (a *arena) at(r ref) *byte { return &a.chunks[r/perChunk][r%perChunk*align] }

// get returns the value at r; it is good until the arena is reset.
func (a *arena) get(r ref) []byte {
	m := a.chunks[r/perChunk][r%perChunk*align:]
	n := binary.LittleEndian.Uint32(m)
	return m[4 : 4+n : 4+n]
}

// set replaces the value at r and returns where the new one is: in the old
// one's place where it fits.
func (a *arena) set(r ref, v []byte) ref {
	if r <= onlyInitial {
		return a.put(v)
	}
	m := a.chunks[r/perChunk][r%perChunk*align:]
	if room(len(v)) > room(int(binary.LittleEndian.Uint32(m))) {
		return a.put(v)
	}
	binary.LittleEndian.PutUint32(m, uint32(len(v)))
	copyShort(m[4:], v)
	return r
}

// copyShort is copy for what is mostly short: a call takes longer than copying its bytes, a twentieth of a hot feed's fold.
func copyShort(to, v []byte) {
	if n := len(v); n < 8 || n > 16 {
		copy(to, v)
	} else {
		head, tail := binary.LittleEndian.Uint64(v), binary.LittleEndian.Uint64(v[n-8:])
		binary.LittleEndian.PutUint64(to, head)
		binary.LittleEndian.PutUint64(to[n-8:], tail)
	}
}
