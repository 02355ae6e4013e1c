package mapping

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/feed"
)

// announce takes a message that says something of the stream, and not of a row: a description of rows
// to come, or a value from which the source resumes. announces tells that it is one.
func (s *Scratch) announce() (announces bool, err error) {
	e, st := s.plan.envelope, &s.stream
	if v := s.at(e.resume); v != nil {
		if v.Kind != feed.Null {
			st.resume = v.Value
		}
		return true, nil
	}
	if e.fails != nil && s.holds(e.fails) {
		of, is := s.tested(e.fails)
		return true, fmt.Errorf("the message cannot be applied: %s is %s (the envelope's fail_when: another preset may fit the stream, or other keys; docs/envelopes.md)", of, is)
	}
	v := s.at(e.schema)
	if v == nil {
		return false, nil
	}
	return true, s.describe(v)
}

// describe takes a description of the rows to come of a table. It counts for a table that a message
// is to add.
func (s *Scratch) describe(v *feed.Field) error {
	s.findTarget()
	if len(s.stream.target.tops)+len(s.stream.target.loose) > 0 || s.plan.star == nil {
		return nil
	}
	columns, err := schemaColumns(v.Value)
	if err != nil {
		return fmt.Errorf("table %q of the stream: %w", clip(s.stream.name), err)
	}
	e := s.plan.envelope
	d := Declared{Columns: slices.DeleteFunc(columns, func(c Column) bool { return e.omits([]byte(c.Name)) || !s.plan.mayName(c.Name) })}
	if key := s.at(e.schemaKey); isRow(key) {
		d.Key = keyNames(key.Value)
	}
	s.Declare(string(s.stream.name), d)
	return nil
}

// mayName reports whether a new column may have a name. Messages with such a field are rejected, if any comes.
func (p *Plan) mayName(column string) bool {
	return column != "" && !strings.Contains(column, "\x00") && p.limits.CheckName(column) == nil
}

// Resume is the value from which the source resumes after the last line, as JSON; nil where the line
// has none.
func (s *Scratch) Resume() []byte { return s.stream.resume }

// tested is what decides about a condition in the message, for people: what its first test looks at, or
// the first that does not hold.
func (s *Scratch) tested(c condition) (of, is string) {
	at := c[0][0].at
	for i := range c[0] {
		if !s.holdsTest(&c[0][i]) {
			at = c[0][i].at
			break
		}
	}
	if v := s.get(at); v != nil {
		return s.plan.title(at), brief(v)
	}
	return s.plan.title(at), "absent"
}

// Warning says why the last line, which is [Warned], is passed over.
func (s *Scratch) Warning() string {
	of, is := s.tested(s.plan.envelope.warns)
	return fmt.Sprintf("messages in which %s is %s are ignored: weir does not act on them (the envelope's warn_when; see docs/envelopes.md)", of, is)
}
