package status

import "maps"

// A NoteKind says what became of values or messages that are not stored as they came.
type NoteKind string

// The kinds, and what their names are.
const (
	Ignored    NoteKind = "ignored"         // values without a column, by field
	Passed     NoteKind = "passed"          // messages that the mapping or the envelope ignores
	NoTable    NoteKind = "no_table"        // messages that match no table, by the value that the tables' conditions compare
	Mismatched NoteKind = "path_mismatches" // values that are not the object or array that a path expects, by path
	Lost       NoteKind = "lost_values"     // values that were not kept, by TABLE.COLUMN or TABLE.FIELD
	Nulled     NoteKind = "nulled_values"   // values that do not fit and count as null, by TABLE.COLUMN
)

// Notes count values and messages by kind and name.
type Notes map[NoteKind]map[string]int64

// The first maxNames names of a kind are counted one by one, the others together.
const (
	maxNames   = 100
	OtherNames = "other"
)

// Total returns how many there are of a kind.
func (n Notes) Total(kind NoteKind) (total int64) {
	for _, count := range n[kind] {
		total += count
	}
	return total
}

// Note counts n more values or messages. It returns the name under which they are counted, and whether they are the
// first of it.
func (p *Progress) Note(kind NoteKind, name string, n int64) (counted string, first bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	counts := p.state.Notes[kind]
	if counts == nil {
		counts = map[string]int64{}
		p.state.Notes[kind] = counts
	}
	if counts[name] == 0 && len(counts) >= maxNames {
		name = OtherNames
	}
	counts[name] += n
	return name, counts[name] == n
}

// clone copies the counts.
func (n Notes) clone() Notes {
	all := Notes{}
	for kind, counts := range n {
		all[kind] = maps.Clone(counts)
	}
	return all
}

// Unmet is a field that an option names and no message had.
type Unmet struct {
	Option   string   // or part of the config file
	Field    string   // its path
	Name     string   // last part of the path
	Siblings []string // other fields that messages have at the same level and no option names
}

// SetUnmet sets the fields that options name and no message had. They must not be changed afterwards.
func (p *Progress) SetUnmet(unmet []Unmet) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Unmet = unmet
}
