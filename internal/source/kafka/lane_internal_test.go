package kafka

import (
	"testing"
)

// TestCommitted_EndsThePoll: a member asks whether all lanes are committed when one is up to its end, and not before.
func TestCommitted_EndsThePoll(t *testing.T) {
	m := &member{dirty: make(chan struct{}, 1)}
	s, l := &Source{member: m}, &lane{until: 5}
	polling, cancel := m.polling.context(t.Context())
	defer cancel()
	for offset, ends := range []bool{4: false, 5: true} {
		s.committed(l, cursor{Offset: int64(offset)}.text())
		if is := polling.Err() != nil; is != ends {
			t.Errorf("committed up to offset %d of 5: the poll has ended: %t", offset, is)
		}
	}
}
