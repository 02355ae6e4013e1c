package fold

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
)

// state is what a database keeps beside a row: the newest message that the row
// lives by, the newest delete, and each column's version. nil is none.
//
// It is written as the number of versions and each with its length, in the order in
// which the rest names them; the numbers, from 1, of that of the row and of the
// delete, or 0; and the numbers of the columns', each behind how many columns in
// succession have it.
type state struct {
	live, tomb []byte
	columns    [][]byte

	texts [][]byte
	coded []uint64
	room  []byte // that states are written into
}

// statesRoom is how many bytes of memory states are given at once.
const statesRoom = 16 << 10

var errState = errors.New("the versions that are kept beside a row in weir_versions are damaged")

// decode reads a state for a number of columns. What it holds points into raw.
func (s *state) decode(raw []byte, columns int) error {
	s.live, s.tomb, s.columns = nil, nil, slices.Grow(s.columns[:0], columns)[:columns]
	clear(s.columns)
	if len(raw) == 0 {
		return nil
	}
	ok := true
	next := func() int {
		n, size := binary.Uvarint(raw)
		if size <= 0 || n > 1<<20 {
			ok = false
			return 0
		}
		raw = raw[size:]
		return int(n)
	}
	s.texts = append(s.texts[:0], nil)
	for n := next(); n > 0 && ok; n-- {
		size := next()
		if size == 0 || size > len(raw) {
			return errState
		}
		s.texts = append(s.texts, raw[:size:size])
		raw = raw[size:]
	}
	text := func() []byte {
		n := next()
		if n >= len(s.texts) {
			ok = false
			return nil
		}
		return s.texts[n]
	}
	s.live, s.tomb = text(), text()
	for at := 0; len(raw) > 0 && ok; {
		n, version := next(), text()
		if n == 0 || n > columns-at {
			return errState
		}
		for ; n > 0; n-- {
			s.columns[at] = version
			at++
		}
	}
	if !ok {
		return errState
	}
	return nil
}

// liveOf returns the version of the newest message that a row lives by, given its state; nil is none. It is the first
// that a state has.
func liveOf(raw []byte) (live []byte) {
	n, size := binary.Uvarint(raw)
	if size <= 0 {
		return nil
	}
	raw = raw[size:]
	for i := range n {
		length, size := binary.Uvarint(raw)
		if size <= 0 || length > uint64(len(raw)-size) {
			return nil
		}
		if i == 0 {
			live = raw[size : size+int(length)]
		}
		raw = raw[size+int(length):]
	}
	if at, size := binary.Uvarint(raw); size <= 0 || at != 1 {
		return nil
	}
	return live
}

// isEmpty reports whether there are no versions in the state, which was encoded.
func (s *state) isEmpty() bool { return len(s.texts) == 1 }

// encode writes the state.
func (s *state) encode() []byte {
	s.texts, s.coded = append(s.texts[:0], nil), s.coded[:0]
	size := 0
	number := func(version []byte) uint64 {
		if version == nil {
			return 0
		}
		for i := len(s.texts) - 1; i > 0; i-- {
			if bytes.Equal(s.texts[i], version) {
				return uint64(i)
			}
		}
		s.texts = append(s.texts, version)
		size += len(version) + 2
		return uint64(len(s.texts) - 1)
	}
	s.coded = append(s.coded, number(s.live), number(s.tomb))
	for at := 0; at < len(s.columns); {
		n, of := 1, number(s.columns[at])
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
		out = append(binary.AppendUvarint(out, uint64(len(t))), t...)
	}
	for _, n := range s.coded {
		out = binary.AppendUvarint(out, n)
	}
	s.room = s.room[:len(s.room)+len(out)]
	return slices.Clip(out)
}
