package fold

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
)

// state is what a database stores with a row: the newest message that keeps the row alive, the newest delete, and
// each column's version. nil means none.
//
// Its encoding is the number of versions, the versions (see pack), and pairs of numbers. The first pair says which
// versions are live and tomb, counted from 1, or 0 for none. Each other pair says how many consecutive columns have a
// version, and which. A pair (a, b) is one number: a times (versions + 1) plus b. Versions are in the order in which
// the pairs mention them. A row with one version of 10 digits takes 10 bytes.
type state struct {
	live, tomb []byte
	columns    [][]byte

	texts    [][]byte
	coded    []uint64
	unpacked []byte // backing memory of unpacked texts
	room     []byte // backing memory of encoded states
}

// statesRoom is how many bytes are allocated for encoded states at once.
const statesRoom = 16 << 10

var errState = errors.New("the versions of a row in weir_versions are damaged")

// packable has the characters of most versions, numbers and times. A version with only these is packed, two
// characters to a byte. Before a version is twice its length, plus 1 if it is packed.
const packable = "0123456789.-:TZ+"

// nibbles is the index of each character in packable, from 1.
var nibbles = func() (at [256]byte) {
	for i := range len(packable) {
		at[packable[i]] = byte(i + 1)
	}
	return at
}()

// pack appends a version to out.
func pack(out, version []byte) []byte {
	from, n := len(out), uint64(len(version))
	out = binary.AppendUvarint(out, n<<1|1)
	for i := 0; i < len(version); i += 2 {
		high, low := nibbles[version[i]], byte(1)
		if i+1 < len(version) {
			low = nibbles[version[i+1]]
		}
		if high == 0 || low == 0 {
			return append(binary.AppendUvarint(out[:from], n<<1), version...)
		}
		out = append(out, (high-1)<<4|(low-1))
	}
	return out
}

// A stateReader decodes a state.
type stateReader struct {
	raw []byte
	bad bool // the state is damaged
}

func (r *stateReader) number() uint64 {
	n, size := binary.Uvarint(r.raw)
	if size <= 0 {
		r.raw, r.bad = nil, true
		return 0
	}
	r.raw = r.raw[size:]
	return n
}

// A packedVersion is a version as pack wrote it.
type packedVersion struct {
	raw    []byte
	length int // of the packed version; 0: raw is the version
}

// version reads a version that pack wrote.
func (r *stateReader) version() (v packedVersion) {
	n := r.number()
	length := int(min(n>>1, maxVersion+1))
	size := length
	if n&1 == 1 {
		size, v.length = (length+1)/2, length
	}
	if length == 0 || length > maxVersion || size > len(r.raw) {
		r.bad = true
		return packedVersion{}
	}
	v.raw, r.raw = r.raw[:size:size], r.raw[size:]
	return v
}

// unpack returns a version, and room. If the version was packed, its text is appended to room.
func (v packedVersion) unpack(room []byte) (version, now []byte) {
	if v.length == 0 {
		return v.raw, room
	}
	from := len(room)
	for _, b := range v.raw {
		room = append(room, packable[b>>4], packable[b&15])
	}
	room = room[:from+v.length]
	return room[from:len(room):len(room)], room
}

// decode reads a state of a number of columns. Its versions point into raw, or are valid until the next call.
func (s *state) decode(raw []byte, columns int) error {
	s.live, s.tomb, s.columns = nil, nil, slices.Grow(s.columns[:0], columns)[:columns]
	clear(s.columns)
	if len(raw) == 0 {
		return nil
	}
	r := stateReader{raw: raw}
	s.texts, s.unpacked = append(s.texts[:0], nil), s.unpacked[:0]
	for n := r.number(); n > 0 && !r.bad; n-- {
		var version []byte
		version, s.unpacked = r.version().unpack(s.unpacked)
		s.texts = append(s.texts, version)
	}
	base := uint64(len(s.texts))
	pair := r.number()
	if r.bad || pair >= base*base {
		return errState
	}
	s.live, s.tomb = s.texts[pair/base], s.texts[pair%base]
	for at := 0; len(r.raw) > 0; {
		pair := r.number()
		n, version := pair/base, s.texts[pair%base]
		if n == 0 || n > uint64(columns-at) {
			return errState
		}
		for ; n > 0; n-- {
			s.columns[at] = version
			at++
		}
	}
	return nil
}

// RemembersDelete reports whether an encoded state holds the version of a delete.
func RemembersDelete(raw []byte) bool {
	r := stateReader{raw: raw}
	n := r.number()
	for i := uint64(0); i < n && !r.bad; i++ {
		r.version()
	}
	return r.number()%(n+1) != 0 || r.bad
}

// isEmpty reports whether the state has no versions. It must have been encoded.
func (s *state) isEmpty() bool { return len(s.texts) == 1 }

// encode writes the state.
func (s *state) encode() []byte {
	s.texts, s.coded = append(s.texts[:0], nil), s.coded[:0]
	size := 0
	numberOf := func(version []byte) uint64 {
		if version == nil {
			return 0
		}
		for i := len(s.texts) - 1; i > 0; i-- {
			if bytes.Equal(s.texts[i], version) {
				return uint64(i)
			}
		}
		s.texts = append(s.texts, version)
		size += len(version) + 2 // and its length
		return uint64(len(s.texts) - 1)
	}
	s.coded = append(s.coded, numberOf(s.live), numberOf(s.tomb))
	for at := 0; at < len(s.columns); {
		n, of := 1, numberOf(s.columns[at])
		for at+n < len(s.columns) && bytes.Equal(s.columns[at+n], s.columns[at]) {
			n++
		}
		if at += n; at < len(s.columns) || of != 0 {
			s.coded = append(s.coded, uint64(n), of)
		}
	}
	if size += 3*len(s.coded) + 2; size > cap(s.room)-len(s.room) {
		s.room = make([]byte, 0, max(size, statesRoom))
	}
	out := s.room[len(s.room):]
	out = binary.AppendUvarint(out, uint64(len(s.texts)-1))
	for _, t := range s.texts[1:] {
		out = pack(out, t)
	}
	for pair := range slices.Chunk(s.coded, 2) {
		out = binary.AppendUvarint(out, pair[0]*uint64(len(s.texts))+pair[1])
	}
	s.room = s.room[:len(s.room)+len(out)]
	return slices.Clip(out)
}
