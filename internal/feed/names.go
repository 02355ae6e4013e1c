package feed

import "sync"

// Names numbers the names of a feed's fields, so that whoever deals with many
// lines looks a name up once. Scanners on several goroutines may share it.
type Names struct {
	mu   sync.Mutex
	byID []string
	ids  map[string]int32
}

const (
	// Unnumbered is the number of every name past the first 10,000, or longer
	// than 1,000 bytes: a feed cannot make the memory for them grow.
	Unnumbered = int32(-1)

	maxNames  = 10000
	maxLength = 1000 // bytes
)

// number returns the number of a name, from 0, or Unnumbered.
func (n *Names) number(name string) int32 {
	n.mu.Lock()
	defer n.mu.Unlock()
	id, ok := n.ids[name]
	switch {
	case ok:
		return id
	case len(n.byID) == maxNames:
		return Unnumbered
	case n.ids == nil:
		n.ids = map[string]int32{}
	}
	id = int32(len(n.byID))
	n.byID = append(n.byID, name)
	n.ids[name] = id
	return id
}

// A follower is a name that one scanner has met, and the one that it expects
// after it. The names of most feeds come in few orders, so that one comparison
// both checks and resolves a name, which takes a tenth off a hot feed.
type follower struct {
	quoted  string // as it stands in most lines: with its quotes and the colon
	escaped bool
	id      int32
	next    int32 // in Scanner.met; 0 where none came yet
}

// meet returns where in s.met the name is, or 0 if it has no number.
func (s *Scanner) meet(name []byte, escaped bool) int32 {
	if len(name) > maxLength {
		return 0
	}
	at, ok := s.byName[string(name)]
	if ok {
		return at
	}
	if len(s.met) > maxNames {
		return 0
	}
	text := name
	if escaped {
		text = AppendUnquoted(nil, name)
	}
	id := s.names.number(string(text))
	if id == Unnumbered {
		return 0
	}
	at = int32(len(s.met))
	s.met = append(s.met, follower{quoted: `"` + string(name) + `":`, escaped: escaped, id: id})
	s.byName[string(name)] = at
	return at
}
