package postgres

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/schema"
)

// explodeAll makes the rows that are values of others.
func (a *attempt) explodeAll() error {
	x := fold.NewExplosion(a.f.Batches, func(i int) *schema.Table { return &a.parts[i].after.Table })
	for i, p := range a.parts {
		p.direct = p.direct && len(a.takers(p)) == 0 // before its rows' sets: those of rows that exist are swept
		if err := a.explode(x, i); err != nil {
			return err
		}
	}
	return nil
}

// lockSets adds what has the other writers of the sets that are swept wait. Rows of one set that two
// writers make at once do not see each other, and locks of the rows alone could be waited for in a
// circle: the row that has the set is not locked where it stays as it is.
func (a *attempt) lockSets() {
	turns := map[int64]bool{}
	for _, p := range a.parts {
		if p.set && p.merge != nil && p.merge.sweeps {
			turns[lockNumber("sets", a.d.schema, a.d.fullName(&p.after))] = true
		}
	}
	a.script.takeTurns(turns)
}

// hasSets reports whether rows that the flush writes are values of the part's.
func (p *part) hasSets() bool {
	table := slices.Index(p.a.parts, p)
	for i, q := range p.a.parts {
		if q.set && q.b.Used() && fold.Top(p.a.f.Batches, i) == table {
			return true
		}
	}
	return false
}

// explode makes the rows of other tables that are values of the rows of a part, as they are
// written, and has the parts of these tables write them.
func (a *attempt) explode(x *fold.Explosion, table int) error {
	p, batches := a.parts[table], a.f.Batches
	if p.merge == nil || p.set || !p.hasSets() {
		return nil
	}
	if err := x.Explode(table, p.merge.b, p.newer); err != nil {
		return err
	}
	for i, q := range a.parts {
		if !q.set || !q.b.Used() || fold.Top(batches, i) != table {
			continue
		}
		e := q.b.Exploded()
		q.writes = e.Sorted()
		if q.newer = q.writes; !p.direct { // where all rows above are new, they have had none
			q.newer = slices.Concat(q.newer, e.Sweeps())
		}
		if q.direct = false; len(q.newer) > 0 {
			q.merge = a.d.newMerge(e, q.t, q.after, q.newer)
			q.direct = p.direct && (q.t.news.seemsNew() || !q.t.Exists) && q.merge.direct()
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
		m.table.ident, strings.Join(key, ", "), m.t.stageName(), join, m.table.ident, belongs,
		strings.Join(staged, ", "), m.t.stageName(), ordinals(len(key)), strings.Join(is, " AND "))
}

// takers are the parts whose rows take those of a part with them that belong to them: they delete
// or replace some. A part whose rows are values of theirs sweeps instead, and one for whose rows their
// deletes count looks for these.
func (a *attempt) takers(p *part) (takers []*part) {
	if !p.b.Used() || p.follows() != nil {
		return nil
	}
	top := fold.Top(a.f.Batches, slices.Index(a.parts, p))
	for of := p.b.Child; of != nil; of = a.f.Batches[of.Parent].Child {
		q := a.parts[of.Parent]
		if of.Parent != top && q.merge != nil && !q.direct && (q.merge.deletes || q.merge.replaces) {
			takers = append(takers, q)
		}
	}
	return takers
}

// take adds what deletes the rows that belong to a row of the part above that is deleted or
// replaced, and are not staged themselves.
func (p *part) take(above *part) int {
	t := &p.after
	var key, staged, is []string
	for _, k := range t.Key {
		column := fmt.Sprintf("c%d", k)
		key, staged = append(key, fmt.Sprintf("%s AS %s", t.compared(k), column)), append(staged, "s."+column)
		is = append(is, fmt.Sprintf("%s = g.%s", t.compared(k), column))
	}
	except := ""
	if p.merge != nil {
		except = fmt.Sprintf(" EXCEPT SELECT %s FROM %s s WHERE s.op IS DISTINCT FROM 's'", strings.Join(staged, ", "), p.t.stageName())
	}
	join, belongs := p.belongs(above)
	return p.a.script.add("DELETE FROM %s t USING (SELECT DISTINCT %s FROM %s s%s JOIN %s t ON %s WHERE s.op IN ('d', 'r')%s ORDER BY %s) g WHERE %s",
		t.ident, strings.Join(key, ", "), above.t.stageName(), join, t.ident, belongs, except, ordinals(len(key)), strings.Join(is, " AND "))
}

// belongs is the condition that a row of the table belongs to a staged one of the part above; join is
// what stands between the two.
func (p *part) belongs(above *part) (join, on string) {
	m := p.a.d.newMerge(p.b, p.t, p.after, nil)
	if n := len(above.b.Table.Key); m.owner != nil && n <= len(m.owner.From) {
		find := m.finder(above.stagedKey).FindAll(m.owner.To, n)
		return fmt.Sprintf(" CROSS JOIN LATERAL (%s) o (id)", find), fmt.Sprintf("t.%s = o.id", ident(p.after.Columns[m.owner.at].Name))
	}
	var all []string
	for part, to := range above.after.Key {
		at, equal := p.after.Key[part], "%s = s.c%d"
		if p.after.cols[at].staged != above.after.cols[to].staged {
			equal = "(%s)::text = s.c%d::text"
		}
		all = append(all, fmt.Sprintf(equal, p.after.compared(at), to))
	}
	return "", strings.Join(all, " AND ")
}

// stagedKey is a part of the key of a staged row, as messages have it.
func (p *part) stagedKey(i int) string {
	k := p.b.Table.Key[i]
	if c := &p.b.Table.Columns[k]; !c.Hidden {
		return fmt.Sprintf("s.c%d", caps.Find(&p.after.Table, c.Name, k))
	}
	return "s." + hiddenName(k)
}

// ordinals are the numbers of the first columns.
func ordinals(n int) string {
	s := make([]string, n)
	for i := range s {
		s[i] = fmt.Sprint(i + 1)
	}
	return strings.Join(s, ", ")
}
