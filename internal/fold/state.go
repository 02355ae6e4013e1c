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
// Its encoding is the number of versions, each version after its length, and pairs of numbers. The first pair says
// which versions are live and tomb, counted from 1, or 0 for none. Each other pair says how many consecutive columns
// have a version, and which. A pair (a, b) is one number: a times (versions + 1) plus b. Versions are in the order in
// which the pairs mention them. A row with one version of 10 digits takes 15 bytes.
type state struct {
	live, tomb []byte
	columns    [][]byte

	texts [][]byte
	coded []uint64
}

var errState = errors.New("the versions of a row in weir_versions are damaged")

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

// version reads a version.
func (r *stateReader) version() (v []byte) {
	n := r.number()
	if n == 0 || n > maxVersion || n > uint64(len(r.raw)) {
		r.bad = true
		return nil
	}
	v, r.raw = r.raw[:n:n], r.raw[n:]
	return v
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
	for n := r.number(); n > 0 && !r.bad; n-- {
		s.texts = append(s.texts, r.version())
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
	out := binary.AppendUvarint(make([]byte, 0, size+3*len(s.coded)+2), uint64(len(s.texts)-1))
	for _, t := range s.texts[1:] {
		out = append(binary.AppendUvarint(out, uint64(len(t))), t...)
	}
	for pair := range slices.Chunk(s.coded, 2) {
		out = binary.AppendUvarint(out, pair[0]*uint64(len(s.texts))+pair[1])
	}
	return out
}
