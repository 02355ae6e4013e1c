package postgres

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/fold"
)

// lockSets adds what has the other writers of the sets that are swept wait. Rows of one set that two
// writers make at once do not see each other, and locks of the rows alone could be waited for in a
// circle: the row that has the set is not locked if it does not change.
func (a *attempt) lockSets() {
	turns := map[int64]bool{}
	for _, p := range a.parts {
		if p.set && p.plan != nil && p.plan.acts.sweeps > 0 {
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
	if p.plan == nil || p.set || !p.hasSets() {
		return nil
	}
	if err := x.Explode(table, p.plan.batch, p.plan.rows); err != nil {
		return err
	}
	for i, q := range a.parts {
		if !q.set || !q.b.Used() || fold.Top(batches, i) != table {
			continue
		}
		e := q.b.Exploded()
		q.writes = e.Sorted()
		rows := q.writes
		if !p.isCopied() { // else all parents are new, and have had none
			rows = slices.Concat(rows, e.Sweeps())
		}
		if len(rows) > 0 {
			q.plan = q.newPlan(e, rows)
			q.plan.isNew = p.isCopied() && q.maySeemNew() && q.plan.copyable()
		}
	}
	return nil
}

// takers returns the parts whose deletes or replacements take rows of p along. A part whose rows are values of theirs
// sweeps instead, and one whose rows have versions looks up those that the deletes apply to.
func (a *attempt) takers(p *part) (takers []*part) {
	if !p.b.Used() || p.follows() != nil {
		return nil
	}
	top := fold.Top(a.f.Batches, slices.Index(a.parts, p))
	for of := p.b.Child; of != nil; of = a.f.Batches[of.Parent].Child {
		q := a.parts[of.Parent]
		if of.Parent != top && q.plan != nil && !q.isCopied() && (q.plan.acts.deletes > 0 || q.plan.acts.replaces) {
			takers = append(takers, q)
		}
	}
	return takers
}

// sweep deletes the rows that belong to one of the staged rows that sweep, and are not staged themselves.
func (s *shape) sweep() statement {
	join, on := s.swept()
	return s.table.deleteBelow("", s.stage, join, on, "s.op = 's'", s.stage)
}

// take deletes the rows that belong to a row of the part above that is deleted or replaced, and are not staged
// themselves.
func (p *part) take(above *part) statement {
	stage := ""
	if p.plan != nil {
		stage = p.t.stageName()
	}
	join, on := p.belongs(above)
	return p.after.deleteBelow("DISTINCT ", above.t.stageName(), join, on, "s.op IN ('d', 'r')", stage)
}

// deleteBelow deletes the rows of a table that go with a staged row s of others, but for those that are in a staging
// table of the table's own, "" for none. EXCEPT looks at each row once, however the server joins.
func (t *relation) deleteBelow(distinct, others, join, on, where, own string) statement {
	var key, staged, is []string
	for _, k := range t.Key {
		column := fmt.Sprintf("c%d", k)
		key, staged = append(key, t.compared(k)+" AS "+column), append(staged, "s."+column)
		is = append(is, t.compared(k)+" = g."+column)
	}
	except := ""
	if own != "" {
		except = fmt.Sprintf("\n  EXCEPT SELECT %s FROM %s s WHERE s.op IS DISTINCT FROM 's'", strings.Join(staged, ", "), own)
	}
	return statement{tally: deleted, sql: fmt.Sprintf("DELETE FROM %s t\nUSING (\n  SELECT %s%s\n  FROM %s s%s JOIN %s t ON %s\n  WHERE %s%s\n  ORDER BY %s) g\nWHERE %s",
		t.ident, distinct, strings.Join(key, ", "), others, join, t.ident, on, where, except, ordinals(len(key)), and(is...))}
}

// belongs is the condition that a row of the table belongs to a staged one of the part above; join is
// what stands between the two.
func (p *part) belongs(above *part) (join, on string) {
	owner := p.a.d.newShape(p.b, p.t, p.after, nil).owner()
	if n := len(above.b.Table.Key); owner != nil && n <= len(owner.From) {
		find := owner.finder(above.stagedKey).FindAll(owner.To, n)
		return fmt.Sprintf("\n  CROSS JOIN LATERAL (%s) o (id)", find), fmt.Sprintf("t.%s = o.id", ident(p.after.Columns[owner.at].Name))
	}
	var all []string
	for part, to := range above.after.Key {
		at, equal := p.after.Key[part], "%s = s.c%d"
		if p.after.cols[at].staged != above.after.cols[to].staged {
			equal = "(%s)::text = s.c%d::text"
		}
		all = append(all, fmt.Sprintf(equal, p.after.compared(at), to))
	}
	return "", and(all...)
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
