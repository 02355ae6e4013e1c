package status

import (
	"maps"
)

// A NoteKind says what became of values or messages that are not stored as they came.
type NoteKind string

// The kinds, and what their names are.
const (
	Ignored    NoteKind = "ignored_fields"     // values without a column, by field
	Passed     NoteKind = "ignored_messages"   // messages that the mapping or the envelope ignores
	NoTable    NoteKind = "unmatched_messages" // messages that match no table, by the value that the tables' conditions compare
	Mismatched NoteKind = "path_mismatches"    // values that are not the object or array that a path expects, by path
)

// Notes count values and messages by kind and name.
type Notes map[NoteKind]map[string]int64

// The first maxNames names of a kind are counted one by one, the others together.
const (
	maxNames   = 100
	otherNames = "other"
)

// A NoteText says what became of the values or messages of a kind.
type NoteText struct {
	Kind   NoteKind
	Text   string // what became of them
	Short  string // the same for the status line; "" if it leaves them out
	Counts map[string]int64
	Total  int64
}

// NoteTexts returns the kinds that occurred.
func (s *Snapshot) NoteTexts() (all []NoteText) {
	for _, of := range []NoteText{
		{Kind: Ignored, Text: "ignored, without a column", Short: "without a column"},
		{Kind: Passed, Text: "ignored by " + s.IgnoredBy},
		{Kind: NoTable, Text: "ignored" + s.NoTable, Short: "for no table"},
		{Kind: Mismatched, Text: "treated as absent, because a path enters a value that is not an object or array"},
	} {
		of.Counts = s.Notes[of.Kind]
		for _, n := range of.Counts {
			of.Total += n
		}
		if of.Total > 0 {
			all = append(all, of)
		}
	}
	return all
}

// Note counts n more values or messages, and reports whether they are the first of the name.
func (p *Progress) Note(kind NoteKind, name string, n int64) (first bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	counts := p.state.Notes[kind]
	if counts == nil {
		counts = map[string]int64{}
		p.state.Notes[kind] = counts
	}
	if counts[name] == 0 && len(counts) >= maxNames {
		name = otherNames
	}
	counts[name] += n
	return counts[name] == n
}

func (n Notes) clone() Notes {
	all := Notes{}
	for kind, counts := range n {
		all[kind] = maps.Clone(counts)
	}
	return all
}

// SetUnmet sets the fields that settings name and no message had. They must not be changed afterwards.
func (p *Progress) SetUnmet(unmet []string) { p.update(func(s *Snapshot) { s.Unmet = unmet }) }
