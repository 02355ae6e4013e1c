package fold

import "encoding/binary"

const (
	chunkSize = 1 << 20 // bytes
	align     = 8       // a ref counts in units of 8 bytes, so 32 bits address 32 GiB
	perChunk  = chunkSize / align

	// maxArena limits the bytes in an arena before another line is added. A line has at most 256 MiB, which still
	// fits below 32 GiB.
	maxArena = 28 << 30
)

// ref is the address of a value in an arena; 0 means none.
type ref uint32

// defaultOnly is the address, in every arena, of the value that consists of the initial mark alone. All rows share
// it.
const defaultOnly ref = 1

// An arena holds values, each after a 4-byte length. Reset keeps its chunks, except the memory of values larger than
// a chunk.
type arena struct {
	chunks [][]byte
	next   int // bytes used in all chunks; the first 8 are unused because ref 0 means none
}

// begin prepares an empty arena that has a chunk.
func (a *arena) begin() {
	a.next = align
	a.put([]byte{initialMark})
}

func (a *arena) reset() {
	for i, c := range a.chunks {
		if len(c) != chunkSize {
			a.chunks = a.chunks[:i] // large values are rare: drop all chunks from the first of them on
			break
		}
		poison(c[:min(len(c), max(0, a.next-i*chunkSize))])
	}
	if len(a.chunks) > 0 {
		a.begin()
	}
}

// bytes returns the number of bytes in use.
func (a *arena) bytes() int { return a.next }

func paddedSize(n int) int { return (4 + n + align - 1) &^ (align - 1) }

// put copies v into the arena and returns its address.
func (a *arena) put(v []byte) ref {
	n := paddedSize(len(v))
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

// grow makes room for n bytes from chunk at onward. A large value spans several chunks of one allocation, so its
// address is still a simple sum.
func (a *arena) grow(at, n int) {
	a.chunks = a.chunks[:at]
	size := (n + chunkSize - 1) / chunkSize * chunkSize
	piece := make([]byte, size)
	for ; len(piece) > chunkSize; piece = piece[chunkSize:] {
		a.chunks = append(a.chunks, piece)
	}
	a.chunks = append(a.chunks, piece)
}

// at returns a pointer to the length of the value at r.
func (a *arena) at(r ref) *byte { return &a.chunks[r/perChunk][r%perChunk*align] }

// get returns the value at r. It is valid until the arena is reset.
func (a *arena) get(r ref) []byte {
	m := a.chunks[r/perChunk][r%perChunk*align:]
	n := binary.LittleEndian.Uint32(m)
	return m[4 : 4+n : 4+n]
}

// set replaces the value at r and returns the address of the new one, which overwrites the old one if it fits.
func (a *arena) set(r ref, v []byte) ref {
	if r <= defaultOnly {
		return a.put(v)
	}
	m := a.chunks[r/perChunk][r%perChunk*align:]
	if paddedSize(len(v)) > paddedSize(int(binary.LittleEndian.Uint32(m))) {
		return a.put(v)
	}
	binary.LittleEndian.PutUint32(m, uint32(len(v)))
	copyShort(m[4:], v)
	return r
}

// copyShort is copy, faster for values of 8 to 16 bytes, which are the most frequent: calling copy took a twentieth
// of a hot feed's fold.
func copyShort(to, v []byte) {
	if n := len(v); n < 8 || n > 16 {
		copy(to, v)
	} else {
		head, tail := binary.LittleEndian.Uint64(v), binary.LittleEndian.Uint64(v[n-8:])
		binary.LittleEndian.PutUint64(to, head)
		binary.LittleEndian.PutUint64(to[n-8:], tail)
	}
}
