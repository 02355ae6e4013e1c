package postgres

import (
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
)

// This file is about rows that name rows of other tables by keys that the database generates. They are
// staged with the keys that messages have, in columns of the staging table alone.

// A reference is a column whose values name rows of another table.
type reference struct {
	*schema.Ref
	at  int // of the table
	to  *relation
	key int // of that table
}

// value is what a staged row names the row by.
func (r *reference) value() string { return "s." + hiddenName(r.From[0]) }

// find is the query for what the database knows the row by.
func (r *reference) find(m *merge) string {
	f := &sink.Finder{Quote: ident, Table: func(string) string { return r.to.ident },
		Equal: func(_, column string, _ int) string {
			return r.to.comparable(r.key, ident(column)) + " = " + r.value()
		}}
	return f.Find(r.To)
}

// newReferences are those of the columns that rows of the batch name.
func (m *merge) newReferences(names []bool, add func(at, from int)) {
	for i := range m.b.Table.Refs {
		r := reference{Ref: &m.b.Table.Refs[i]}
		if r.Owner || r.From[0] == r.Column || !names[r.From[0]] {
			continue
		}
		if r.at = caps.Find(&m.table.Table, m.b.Table.Columns[r.Column].Name, r.Column); r.at < 0 {
			continue
		}
		r.to = m.d.current(r.To.Table)
		r.key = caps.Find(&r.to.Table, r.To.Key[0], 0)
		add(r.at, r.From[0])
		m.refs = append(m.refs, r)
	}
}

// appendRefs appends the keys that a row names others by.
func (m *merge) appendRefs(line []byte, r *fold.Row) []byte {
	for _, ref := range m.refs {
		line = append(line, '\t')
		if raw := m.b.Value(r, ref.From[0]); raw == nil || raw[0] == 'n' {
			line = append(line, '\\', 'N')
		} else {
			line = m.value(line, raw, ref.to.Columns[ref.key].Type)
		}
	}
	return line
}

// findReferred adds what finds the rows that staged ones name.
func (m *merge) findReferred(s *script) {
	for i := range m.refs {
		r := &m.refs[i]
		m.inOrder = false
		s.add("UPDATE %s s SET c%d = (%s) WHERE %s%s", m.t.stageName(), r.at, r.find(m), r.value(), notNull)
	}
}
