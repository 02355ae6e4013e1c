package feed

import "sync"

// Names numbers the names of a feed's fields, so a name is looked up once and not for every line. Several goroutines
// may share it.
type Names struct {
	mu       sync.Mutex
	byNumber []string
	seen     []bool // by number: the name occurred in the feed
	numbers  map[string]int32
}

const (
	// Names after the first 10,000, and names over 1,000 bytes, get no number, so a feed cannot use unlimited memory.
	maxNames  = 10000
	maxLength = 1000 // bytes
)

// Number returns the number of a name, from 0. It numbers every name: use it before scanning, for names that the
// program needs.
func (n *Names) Number(name string) int32 {
	n.mu.Lock()
	defer n.mu.Unlock()
	if number, ok := n.numbers[name]; ok {
		return number
	}
	return n.add(name)
}

// Name returns the name with a number.
func (n *Names) Name(number int32) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.byNumber[number]
}

// NameOf returns the name of a field: negative numbers refer to the line's unnumbered names.
func (n *Names) NameOf(number int32, unnumbered [][]byte) string {
	if number < 0 {
		return string(unnumbered[^number])
	}
	return n.Name(number)
}

// Intern returns the number of a name in the feed, or -1 if it gets none.
func (n *Names) Intern(name []byte) int32 {
	n.mu.Lock()
	defer n.mu.Unlock()
	if number, ok := n.numbers[string(name)]; ok {
		n.seen[number] = true
		return number
	}
	if len(n.byNumber) >= maxNames || len(name) > maxLength {
		return -1
	}
	number := n.add(string(name))
	n.seen[number] = true
	return number
}

// Seen returns the names that occurred in the feed.
func (n *Names) Seen() (names []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for number, seen := range n.seen {
		if seen {
			names = append(names, n.byNumber[number])
		}
	}
	return names
}

func (n *Names) add(name string) int32 {
	if n.numbers == nil {
		n.numbers = map[string]int32{}
	}
	number := int32(len(n.byNumber))
	n.byNumber, n.seen = append(n.byNumber, name), append(n.seen, false)
	n.numbers[name] = number
	return number
}

// A follower is a name, and what a scanner expects after it. Most feeds have few orders of names, one for each type
// of message, so one comparison usually both checks and resolves a name: that saves a tenth of a hot feed's CPU. A
// follower on a path stands for all names of a message up to this one, so what it expects depends on the type: that
// saves another tenth for a feed of six types. When there are too many paths, further names
// have one follower each, which expects what came after it last time.
type follower struct {
	quoted string // with quotes and colon, as in most lines
	number int32
	next   int32 // index in Scanner.followers of the first expected name; 0 if none came yet
	other  int32 // on a path: index in Scanner.followers of another name expected here; 0 if there is none
	path   bool
}

// If messages have ever new orders of names, a scanner has at most maxPaths followers on paths, of 40 bytes each, and
// compares a name with at most maxOthers.
const (
	maxPaths  = 4096
	maxOthers = 16
)

// other returns the follower of s.followers[prev], besides the first, that rest begins with, or 0. It becomes the
// first.
func (s *Scanner) other(prev int32, rest []byte) int32 {
	first := s.followers[prev].next
	for before, at := first, s.followers[first].other; at > 0; before, at = at, s.followers[at].other {
		e := &s.followers[at]
		if len(rest) >= len(e.quoted) && string(rest[:len(e.quoted)]) == e.quoted {
			s.followers[before].other, e.other, s.followers[prev].next = e.other, first, at
			return at
		}
	}
	return 0
}

// follow makes s.followers[prev] expect the name of s.followers[name], and returns the name's follower there. name is
// 0 for a name without a follower.
func (s *Scanner) follow(prev, name int32) int32 {
	p := &s.followers[prev]
	if prev > 0 && !p.path {
		p.next = name
		return name
	}
	n := 0
	for at := p.next; at > 0; at = s.followers[at].other {
		if s.followers[at].quoted == s.followers[name].quoted { // there was white space before the colon
			return at
		}
		n++
	}
	if name == 0 || n == maxOthers || s.paths == maxPaths {
		return name
	}
	e := follower{quoted: s.followers[name].quoted, number: s.followers[name].number, other: p.next, path: true}
	at := int32(len(s.followers))
	p.next = at
	s.followers = append(s.followers, e)
	s.paths++
	return at
}

// resolve returns the number of the name raw, and its index in s.followers, 0 if it has none.
func (s *Scanner) resolve(raw []byte, escaped bool) (number, at int32) {
	if at, ok := s.byName[string(raw)]; ok {
		return s.followers[at].number, at
	}
	name := raw
	if escaped {
		name = AppendUnquoted(nil, raw)
	}
	if number = s.names.Intern(name); number < 0 {
		s.unnumbered = append(s.unnumbered, name)
		return ^int32(len(s.unnumbered) - 1), 0
	}
	if len(s.byName) > maxNames || len(raw) > maxLength {
		return number, 0
	}
	at = int32(len(s.followers))
	s.followers = append(s.followers, follower{quoted: `"` + string(raw) + `":`, number: number})
	s.byName[string(raw)] = at
	return number, at
}

// Name returns the name of a field of the last line.
func (s *Scanner) Name(f *Field) string { return s.names.NameOf(f.Name, s.unnumbered) }
