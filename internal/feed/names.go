package feed

import "sync"

// Names numbers the names of a feed's fields, so that whoever deals with many
// lines looks a name up once. Scanners on several goroutines may share it.
type Names struct {
	mu       sync.Mutex
	byNumber []string
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

// Meet returns the number of a name that a feed brings, or -1 where it gets none.
func (n *Names) Meet(name []byte) int32 {
	n.mu.Lock()
	defer n.mu.Unlock()
	if number, ok := n.numbers[string(name)]; ok {
		return number
	}
	if len(n.byNumber) >= maxNames || len(name) > maxLength {
		return -1
	}
	return n.add(string(name))
}

func (n *Names) add(name string) int32 {
	if n.numbers == nil {
		n.numbers = map[string]int32{}
	}
	number := int32(len(n.byNumber))
	n.byNumber = append(n.byNumber, name)
	n.numbers[name] = number
	return number
}

// A follower is a name that one scanner has met, and the one that it expects
// after it. The names of most feeds come in few orders, so that one comparison
// both checks and resolves a name, which takes a tenth off a hot feed.
type follower struct {
	quoted string // as it stands in most lines: with its quotes and the colon
	number int32
	next   int32 // in Scanner.met; 0 where none came yet
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
	if len(s.met) > maxNames || len(raw) > maxLength {
		return number, 0
	}
	at = int32(len(s.met))
	s.met = append(s.met, follower{quoted: `"` + string(raw) + `":`, number: number})
	s.byName[string(raw)] = at
	return number, at
}

// Name returns the name of a field of the last line.
func (s *Scanner) Name(f *Field) string {
	if f.Name < 0 {
		return string(s.unnumbered[^f.Name])
	}
	return s.names.Name(f.Name)
}
