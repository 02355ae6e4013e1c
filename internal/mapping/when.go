package mapping

import (
	"bytes"

	"github.com/weirsync/weir/internal/feed"
)

// A place is a node of one of the plan's trees.
type place struct{ tree, node int32 }

// A condition is a [When], ready to be tested.
type condition [][]test

type test struct {
	at       place
	in       [][]byte // texts
	null     bool     // null is one of the values
	compares bool     // there are values
	not      bool
	present  Presence
}

// holds tests a condition for the message at hand, and the elements at hand of its arrays.
func (s *Scratch) holds(c condition) bool {
	if c == nil {
		return true
	}
	for _, all := range c {
		if s.holdAll(all) {
			return true
		}
	}
	return false
}

func (s *Scratch) holdAll(all []test) bool {
	for i := range all {
		if !s.holdsTest(&all[i]) {
			return false
		}
	}
	return true
}

func (s *Scratch) holdsTest(t *test) bool {
	v := s.get(t.at)
	switch {
	case v == nil && t.present == MustBePresent, v != nil && t.present == MustBeAbsent:
		return false
	case !t.compares:
		return true
	case v == nil:
		return t.not
	}
	return s.isOneOf(v, t) != t.not
}

func (s *Scratch) isOneOf(v *feed.Field, t *test) bool {
	if v.Kind == feed.Null {
		return t.null
	}
	text := s.textOf(v)
	for _, want := range t.in {
		if bytes.Equal(text, want) {
			return true
		}
	}
	return false
}

// textOf is a value as text. It is good until the next call.
func (s *Scratch) textOf(v *feed.Field) []byte {
	if v.Kind != feed.String {
		return v.Value
	}
	inner := v.Value[1 : len(v.Value)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return inner
	}
	s.text = feed.AppendUnquoted(s.text[:0], inner)
	return s.text
}
