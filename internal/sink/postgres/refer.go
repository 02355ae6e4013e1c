package postgres

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
)

// This file is about rows that name rows of other tables. Where these have keys that the database
// generates, the rows are staged with the keys that messages have, in columns of the staging table
// alone.

// A reference is a column whose values name rows of another table.
type reference struct {
	*schema.Ref
	at   int // of the table
	null int // the mark of rows that set it to NULL; -1: no row has one
	to   *relation
	key  int // of that table
}

func (r *reference) hidden() bool { return r.From[0] != r.Column }

// value is what a staged row names the row by.
func (r *reference) value() string {
	if r.hidden() {
		return "s." + hiddenName(r.From[0])
	}
	return fmt.Sprintf("s.c%d", r.at)
}

// mayBeNull tells that a column names rows that may have been missing when a message came.
func (m *merge) mayBeNull(at int) bool {
	return slices.ContainsFunc(m.refs, func(r reference) bool { return r.at == at && r.Missing == schema.Null })
}

// find is the query for what the database knows the row by.
func (r *reference) find(m *merge) string {
	f := &sink.Finder{Quote: ident, Table: func(string) string { return r.to.ident },
		Equal: func(_, column string, _ int) string {
			equal := "%s = %s"
			if !r.hidden() && m.table.cols[r.at].staged != r.to.cols[r.key].staged {
				equal = "(%s)::text = %s::text"
			}
			return fmt.Sprintf(equal, r.to.comparable(r.key, ident(column)), r.value())
		}}
	return f.Find(r.To)
}

// newReferences are those of the columns that rows of the batch name.
func (m *merge) newReferences(names []bool, add func(at, from int, nulls bool) *staged) {
	for i := range m.b.Table.Refs {
		r := reference{Ref: &m.b.Table.Refs[i], null: -1}
		if r.Missing == schema.NoRow || !names[r.From[0]] || r.Missing == schema.Stub && !r.hidden() {
			continue
		}
		if r.at = caps.Find(&m.table.Table, m.b.Table.Columns[r.Column].Name, r.Column); r.at < 0 {
			continue
		}
		r.to = m.d.current(r.To.Table)
		r.key = caps.Find(&r.to.Table, r.To.Key[0], 0)
		if r.hidden() || r.Missing == schema.Null {
			r.null = add(r.at, r.From[0], r.Missing == schema.Null).null
		}
		m.refs = append(m.refs, r)
	}
}

// hiddenRefs calls each with the references whose keys, as messages have them, are in columns of the
// staging table alone.
func (m *merge) hiddenRefs(each func(r *reference)) {
	for i := range m.refs {
		if m.refs[i].hidden() {
			each(&m.refs[i])
		}
	}
}

// appendRefs appends the values of a row in these columns.
func (m *merge) appendRefs(line []byte, r *fold.Row) []byte {
	m.hiddenRefs(func(ref *reference) {
		line = append(line, '\t')
		if raw := m.b.Value(r, ref.From[0]); raw == nil || raw[0] == 'n' {
			line = append(line, '\\', 'N')
		} else {
			line = m.value(line, raw, ref.to.Columns[ref.key].Type)
		}
	})
	return line
}

// What the words for a row that is missing stand between in an error of the server's.
const missingWord, missingEnd = "weir: missing: ", "; weir"

// missingRow are these words, "" where the error is another one.
func missingRow(e *pgconn.PgError) string {
	_, words, ok := strings.Cut(e.Message, missingWord)
	if end := strings.LastIndex(words, missingEnd); ok && end >= 0 && e.Code == "22P02" {
		return words[:end]
	}
	return ""
}

// findReferred adds what finds the rows that staged ones name, and what becomes of those that are
// missing.
func (m *merge) findReferred(s *script) {
	for i := range m.refs {
		r := &m.refs[i]
		value, find := r.value(), r.find(m)
		missing := fmt.Sprintf("%s%s AND NOT EXISTS (%s)", value, notNull, find)
		if r.Missing == schema.Reject {
			// A number that is none ends the transaction, as with the fence.
			s.add("SELECT (%s || %s::text || %s)::int FROM %s s WHERE %s LIMIT 1",
				m.d.literal(missingWord+sink.MissingRow(r.To.Table, "")), value, quote(missingEnd), m.t.stageName, missing)
		}
		if r.Missing == schema.Null {
			mark := fmt.Sprintf("marks = set_bit(coalesce(marks, repeat('0', %d)::varbit), %d, 1)", m.bits, r.null)
			if !r.hidden() { // else what is found, nothing, is put there below
				mark += fmt.Sprintf(", c%d = NULL", r.at)
			}
			m.inOrder = false
			s.add("UPDATE %s s SET %s WHERE %s", m.t.stageName, mark, missing)
		}
		if r.hidden() {
			m.inOrder = false
			s.add("UPDATE %s s SET c%d = (%s) WHERE %s%s", m.t.stageName, r.at, find, value, notNull)
		}
	}
}
