package feed

import "sync"

// Names numbers the names of a feed's fields, so that whoever deals with many
// lines looks a name up once. Scanners on several goroutines may share it.
type Names struct {
	mu       sync.Mutex
	byNumber []string
	met      []bool // by number: a feed has brought the name
	numbers  map[string]int32
}

const (
	// A feed's names past the first 10,000, and those longer than 1,000 bytes, get no
	// number: a feed cannot make the memory for them grow.
	maxNames  = 10000
	maxLength = 1000 // bytes
)

// Number returns the number of a name, from 0. It numbers every name: it is for those that the
// program looks for, before it scans.
func (n *Names) Number(name string) int32 {
	n.mu.Lock()
	defer n.mu.Unlock()
	if number, ok := n.numbers[name]; ok {
		return number
	}
	return n.add(name)
}

// Name returns the name that has a number.
func (n *Names) Name(number int32) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.byNumber[number]
}

// NameOf returns the name that a number of a line's fields stands for: below 0 it is one of the line's unnumbered names.
func (n *Names) NameOf(number int32, unnumbered [][]byte) string {
	if number < 0 {
		return string(unnumbered[^number])
	}
	return n.Name(number)
}

// Meet returns the number of a name that a feed brings, or -1 where it gets none.
func (n *Names) Meet(name []byte) int32 {
	n.mu.Lock()
	defer n.mu.Unlock()
	if number, ok := n.numbers[string(name)]; ok {
		n.met[number] = true
		return number
	}
	if len(n.byNumber) >= maxNames || len(name) > maxLength {
		return -1
	}
	number := n.add(string(name))
	n.met[number] = true
	return number
}

// HasMet reports whether a feed has brought a name. It may not know of one that gets no number.
func (n *Names) HasMet(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	number, ok := n.numbers[name]
	return ok && n.met[number]
}

// Met returns the names that a feed has brought.
func (n *Names) Met() (names []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for number, met := range n.met {
		if met {
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
	n.byNumber, n.met = append(n.byNumber, name), append(n.met, false)
	n.numbers[name] = number
	return number
}

// A follower is a name, and what a scanner expects after it. The names of most feeds come in few
// orders, one for each type of message, so that one comparison both checks and resolves a name:
// a tenth off a hot feed. A follower on a path stands for all names of a message up to
// it, so that what it expects depends on the type: another tenth off the CPU of a feed of six
// types (BenchmarkScan/shapes). Names for which there is no path any more have one follower each, wherever they
// come, which expects what came after it last time.
type follower struct {
	quoted string // as it stands in most lines: with its quotes and the colon
	number int32
	next   int32 // in Scanner.met: the first that is expected; 0 where none came yet
	other  int32 // in Scanner.met: on a path, what else is expected in this place; 0 where nothing is
	path   bool
}

// A feed whose messages name their fields in ever other orders cannot make a scanner grow past maxPaths
// followers on paths, of 40 bytes each, nor have it compare a name with more than maxOthers.
const (
	maxPaths  = 4096
	maxOthers = 16
)

// other returns the follower of s.met[prev], after the first, that the rest of a line begins
// with, and 0 if there is none. It is the first from now on.
func (s *Scanner) other(prev int32, rest []byte) int32 {
	first := s.met[prev].next
	for before, at := first, s.met[first].other; at > 0; before, at = at, s.met[at].other {
		e := &s.met[at]
		if len(rest) >= len(e.quoted) && string(rest[:len(e.quoted)]) == e.quoted {
			s.met[before].other, e.other, s.met[prev].next = e.other, first, at
			return at
		}
	}
	return 0
}

// follow has s.met[prev] expect the name of s.met[name], which is 0 where it has none, and returns the
// name's follower in this place.
func (s *Scanner) follow(prev, name int32) int32 {
	p := &s.met[prev]
	if prev > 0 && !p.path {
		p.next = name
		return name
	}
	n := 0
	for at := p.next; at > 0; at = s.met[at].other {
		if s.met[at].quoted == s.met[name].quoted { // white space stands before the colon
			return at
		}
		n++
	}
	if name == 0 || n == maxOthers || s.paths == maxPaths {
		return name
	}
	e := follower{quoted: s.met[name].quoted, number: s.met[name].number, other: p.next, path: true}
	at := int32(len(s.met))
	p.next = at
	s.met = append(s.met, e)
	s.paths++
	return at
}

// meet returns the number of a name, which stands in the line as raw, and where in s.met it
// is, 0 if it is not.
func (s *Scanner) meet(raw []byte, escaped bool) (number, at int32) {
	if at, ok := s.byName[string(raw)]; ok {
		return s.met[at].number, at
	}
	name := raw
	if escaped {
		name = AppendUnquoted(nil, raw)
	}
	if number = s.names.Meet(name); number < 0 {
		s.unnumbered = append(s.unnumbered, name)
		return ^int32(len(s.unnumbered) - 1), 0
	}
	if len(s.byName) > maxNames || len(raw) > maxLength {
		return number, 0
	}
	at = int32(len(s.met))
	s.met = append(s.met, follower{quoted: `"` + string(raw) + `":`, number: number})
	s.byName[string(raw)] = at
	return number, at
}

// Name returns the name of a field of the last line.
func (s *Scanner) Name(f *Field) string { return s.names.NameOf(f.Name, s.unnumbered) }
