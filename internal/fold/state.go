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
// Its encoding is a list of the different versions, each after its length, then the numbers of live and tomb in it, from
// 1, or 0 for none, and runs: how many consecutive columns have a version, and its number. A row with one version of 10
// digits takes 18 bytes.
type state struct {
	live, tomb []byte
	columns    [][]byte

	texts [][]byte
	rest  []byte // of the encoding: what follows the list
}

var errState = errors.New("the versions of a row in weir_versions are damaged")

// A stateReader decodes a state.
type stateReader struct {
	raw []byte
	bad bool // the state is damaged
}

// number reads a number up to a limit.
func (r *stateReader) number(most int) int {
	n, size := binary.Uvarint(r.raw)
	if size <= 0 || n > uint64(most) {
		r.raw, r.bad = nil, true
		return 0
	}
	r.raw = r.raw[size:]
	return int(n)
}

// decode reads a state of a number of columns. Its versions point into raw.
func (s *state) decode(raw []byte, columns int) error {
	s.live, s.tomb, s.columns = nil, nil, slices.Grow(s.columns[:0], columns)[:columns]
	clear(s.columns)
	if len(raw) == 0 {
		return nil
	}
	r := stateReader{raw: raw}
	s.texts = append(s.texts[:0], nil)
	for n := r.number(len(raw)); n > 0 && !r.bad; n-- {
		size := r.number(maxVersion)
		if size == 0 || size > len(r.raw) {
			return errState
		}
		s.texts, r.raw = append(s.texts, r.raw[:size:size]), r.raw[size:]
	}
	version := func() []byte { return s.texts[r.number(len(s.texts)-1)] }
	s.live, s.tomb = version(), version()
	for rest := s.columns; len(r.raw) > 0; {
		n := r.number(len(rest))
		v := version()
		for i := range n {
			rest[i] = v
		}
		rest = rest[n:]
	}
	if r.bad {
		return errState
	}
	return nil
}

// isEmpty reports whether the state has no versions. It must have been encoded.
func (s *state) isEmpty() bool { return len(s.texts) == 1 }

// encode writes the state.
func (s *state) encode() []byte {
	s.texts, s.rest = append(s.texts[:0], nil), s.rest[:0]
	size := 0
	put := func(version []byte) {
		at := len(s.texts) - 1
		for at > 0 && !bytes.Equal(s.texts[at], version) {
			at--
		}
		if at == 0 && version != nil {
			at, s.texts = len(s.texts), append(s.texts, version)
			size += len(version) + 2 // and its length
		}
		s.rest = binary.AppendUvarint(s.rest, uint64(at))
	}
	put(s.live)
	put(s.tomb)
	for rest := s.columns; len(rest) > 0; {
		n := 1
		for n < len(rest) && bytes.Equal(rest[n], rest[0]) {
			n++
		}
		if n < len(rest) || rest[0] != nil {
			s.rest = binary.AppendUvarint(s.rest, uint64(n))
			put(rest[0])
		}
		rest = rest[n:]
	}
	out := binary.AppendUvarint(make([]byte, 0, size+len(s.rest)+2), uint64(len(s.texts)-1))
	for _, t := range s.texts[1:] {
		out = append(binary.AppendUvarint(out, uint64(len(t))), t...)
	}
	return append(out, s.rest...)
}
