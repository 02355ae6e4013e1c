package postgres

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/fold"
)

// explodeAll makes the rows that are values of others.
func (a *attempt) explodeAll() error {
	for i := range a.parts {
		if err := a.explode(i); err != nil {
			return err
		}
	}
	return nil
}

// lockSets adds what has the other writers of the sets that are swept wait. Rows of one set that two
// writers make at once do not see each other, and locks of the rows alone could be waited for in a
// circle: the row that has the set is not locked where it stays as it is.
func (a *attempt) lockSets() {
	for _, p := range a.parts {
		if p.set && p.merge != nil && p.merge.sweeps {
			a.script.add("SELECT pg_advisory_xact_lock(%d)", lockNumber("sets", a.d.schema, a.d.fullName(&p.after)))
		}
	}
}

// explode makes the rows of other tables that are values of the rows of a part, as they are
// written, and has the parts of these tables write them.
func (a *attempt) explode(table int) error {
	p, batches := a.parts[table], a.f.Batches
	below := func(q *part) bool { return q.set && q.b.Used() }
	if p.merge == nil || p.set || !slices.ContainsFunc(a.parts, below) {
		return nil
	}
	if err := fold.Explode(batches, table, p.merge.b, p.newer); err != nil {
		return err
	}
	for i, q := range a.parts {
		if !below(q) || fold.Top(batches, i) != table {
			continue
		}
		e := q.b.Exploded()
		q.writes = e.Sorted()
		if q.newer = q.writes; !p.direct { // where all rows above are new, they have had none
			q.newer = slices.Concat(q.newer, e.Sweeps())
		}
		if q.direct = false; len(q.newer) > 0 {
			q.merge = a.d.newMerge(e, q.t, q.after, q.newer)
			q.direct = p.direct && (q.t.allNew || !q.t.Exists) && q.merge.direct()
		}
	}
	return nil
}

// sweep adds what deletes the rows that belong to one of the staged rows that sweep, and are not
// staged themselves.
func (m *merge) sweep(s *script) int {
	var key, staged, is []string
	for _, k := range m.table.Key {
		column := fmt.Sprintf("c%d", k)
		key, staged = append(key, fmt.Sprintf("%s AS %s", m.table.compared(k), column)), append(staged, "s."+column)
		is = append(is, fmt.Sprintf("%s = g.%s", m.table.compared(k), column))
	}
	join, belongs := m.belongs(m.b.Sweeps()[0])
	// EXCEPT looks at each row once, however the server joins.
	return s.add("DELETE FROM %s t USING (SELECT %s FROM %s s%s JOIN %s t ON %s WHERE s.op = 's' EXCEPT SELECT %s FROM %s s WHERE s.op IS DISTINCT FROM 's' ORDER BY %s) g WHERE %s",
		m.table.ident, strings.Join(key, ", "), m.t.stageName, join, m.table.ident, belongs,
		strings.Join(staged, ", "), m.t.stageName, ordinals(len(key)), strings.Join(is, " AND "))
}

// ordinals are the numbers of the first columns.
func ordinals(n int) string {
	s := make([]string, n)
	for i := range s {
		s[i] = fmt.Sprint(i + 1)
	}
	return strings.Join(s, ", ")
}
