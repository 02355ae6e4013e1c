package postgres

import (
	"fmt"
	"strings"
)

// This file is about what takes the place of a MERGE: for tables that have rules or row-level
// security, or for which the server refuses one; for servers whose MERGE is wrong or cannot be counted; and
// for a flush whose MERGE found each time that another session had just inserted a row of its own: these
// statements wait for it.

// separates reports whether the rows are written by separate statements.
func (p *part) separates() bool {
	d := p.a.d
	return !d.counts || d.mergeMisses() || p.t.unmergeable || p.after.policed || p.a.tries[errTaken] == causes[errTaken].limit
}

// mergeMisses reports whether the server is one before 15.5 or 16.1: there a MERGE that has waited for an
// UPDATE of another session may take the row for missing, and so pass by the delete of it.
func (c *client) mergeMisses() bool { return c.version < 150005 || c.version == 160000 }

// separately adds the statements. New rows come first, in the order of their keys: who waits there for
// another writer's row holds no lock on a row that exists. Then the rows that are to change are locked
// in that order.
func (m *merge) separately(s *script, alone bool) (t tags) {
	set, differs := m.assignments()
	// A row that was just inserted may be another than the staged one: then it is
	// marked, and left alone.
	marked := set != nil && (m.table.triggers || (m.replaces || m.resets) && m.defaults())
	t = noTags
	t.insert = m.insert(s, marked)
	var touched []string
	if set != nil {
		lives := m.lives()
		if marked {
			lives += "s.op IS DISTINCT FROM 'i' AND "
		}
		touched = append(touched, lives+"(t.ctid IS NULL OR "+differs+")")
		// A row that was just locked shows it, unless others share the lock: that
		// saves comparing it a second time. Where a table has rules, the check of a
		// foreign key may have locked it too.
		if !m.table.HasConstraints {
			differs = "(t.xmax = pg_current_xact_id()::xid OR " + differs + ")"
		}
		differs = lives + m.asFound(hasState) + differs
	}
	if m.deletes {
		touched = append(touched, "s.op = 'd' AND t.ctid IS NOT NULL")
	}
	if len(touched) == 0 {
		return t
	}
	m.lock(s, "("+strings.Join(touched, " OR ")+")")
	if set != nil {
		t.update = s.add("UPDATE %s t SET %s FROM %s s WHERE %s AND %s AND %s", m.table.ident, m.setList(set), m.t.stageName(), someLocked, m.on(), differs)
	}
	if m.deletes && alone {
		t.delete = m.delete(s)
	}
	return t
}

// insert adds what inserts the rows that are missing, and returns the number of
// the statement that counts them, by their marks where they are to be marked.
func (m *merge) insert(s *script, marked bool) int {
	into, from := m.inserted()
	key := make([]string, len(m.table.Key))
	for i, k := range m.table.Key {
		key[i] = ident(m.table.Columns[k].Name)
	}
	keys := strings.Join(key, ", ")
	insert := fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %s s WHERE %sNOT EXISTS (SELECT FROM %s t WHERE %s) ORDER BY s.n",
		m.table.ident, strings.Join(into, ", "), strings.Join(from, ", "), m.t.stageName(), m.lives(), m.table.ident, m.on())
	passing := insert + " ON CONFLICT (" + keys + ") DO NOTHING"
	if marked {
		passing = fmt.Sprintf("WITH t AS (%s RETURNING %s) UPDATE %s s SET op = 'i' FROM t WHERE %s", passing, keys, m.t.stageName(), m.on())
	}
	n := s.add("%s", passing)
	if m.table.hides {
		// A row that others made in the meantime is seen by now. What is not, a policy
		// hides: then this is refused.
		s.add("%s", insert)
	}
	return n
}

// someLocked is the condition that the lock found a row: else the rest is not even looked at.
const someLocked = "current_setting('weir.touched') <> '0'"

// delete adds what deletes the rows that staged ones delete.
func (m *merge) delete(s *script) int {
	return s.add("DELETE FROM %s t USING %s s WHERE %s%s AND s.op = 'd'", m.table.ident, m.t.stageName(), m.asFound(hasState), m.on())
}

// lock adds what locks the table's rows that staged ones touch, and demands that it lock
// all of them. A row that another session deletes or gives another key, after the INSERT
// saw it or while its lock is waited for, cannot be locked, even if that session
// makes a new one of its key: then the flush starts again. Where a trigger or a policy
// may keep rows away for good, it starts again once.
func (m *merge) lock(s *script, touched string) {
	strength := "NO KEY UPDATE"
	if m.deletes {
		strength = "UPDATE"
	}
	key := make([]string, len(m.table.Key))
	for i, k := range m.table.Key {
		key[i] = fmt.Sprintf("s.c%d", k)
	}
	// A table that the flush makes has no schema before its name, which may be any but weir's own.
	asFound := m.asFound("s.sure")
	if asFound != "" {
		key = append(key, "s.found", hasState+" AS sure")
	}
	s.add("WITH weir_touched AS MATERIALIZED (SELECT s.n, %s FROM %s s LEFT JOIN %s t ON %s WHERE %s)"+
		" SELECT set_config('weir.touched', x.n::text, true), set_config('weir.gone', (x.n < y.n)::text, true)"+
		" FROM (SELECT count(*) n FROM (SELECT FROM weir_touched s JOIN %[3]s t ON %[7]s%[4]s ORDER BY s.n FOR %[6]s OF t) l) x, (SELECT count(*) n FROM weir_touched) y",
		strings.Join(key, ", "), m.t.stageName(), m.table.ident, m.on(), touched, strength, asFound)
	if !(m.table.triggers || m.table.policed) || !m.missed {
		s.demand(errGone, "current_setting('weir.gone') = 'false'")
	}
}
