package postgres

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/fold"
)

// Rows that belong to rows of other tables. Deleting or replacing the parent deletes them. Rows of a set are values in
// their parent's row.

// explode makes the rows of other tables that are values in a part's rows, as they are written, and makes these tables'
// parts write them.
func (a *attempt) explode(x *fold.Explosion, table int) error {
	p := a.parts[table]
	var sets []*part
	for i, q := range a.parts {
		if q.isSet && q.b.Used() && fold.Top(a.f.Batches, i) == table {
			sets = append(sets, q)
		}
	}
	if p.plan == nil || p.isSet || len(sets) == 0 {
		return nil
	}
	if err := x.Explode(table, p.plan.batch, p.plan.rows); err != nil {
		return err
	}
	for _, q := range sets {
		e := q.b.Exploded()
		q.writes = e.Sorted()
		rows := q.writes
		if !p.isCopied() { // otherwise all parents are new, and have had none
			rows = slices.Concat(rows, e.Sweeps())
		}
		if len(rows) > 0 {
			q.plan = q.newPlan(e, rows)
			q.plan.isNew = p.isCopied() && q.maySeemNew() && q.plan.copyable()
		}
	}
	return nil
}

// cascading returns the parts whose deletes or replacements delete rows of p. A part whose rows are values in theirs
// sweeps instead.
func (a *attempt) cascading(p *part) (cascading []*part) {
	if !p.b.Used() {
		return nil
	}
	top := fold.Top(a.f.Batches, slices.Index(a.parts, p))
	for of := p.b.Child; of != nil; of = a.f.Batches[of.Parent].Child {
		q := a.parts[of.Parent]
		if of.Parent != top && q.plan != nil && !q.isCopied() && (q.plan.acts.deletes > 0 || q.plan.acts.replaces) {
			cascading = append(cascading, q)
		}
	}
	return cascading
}

// sweep deletes the rows that belong to one of the staged rows that sweep, and are not staged themselves.
func (s *shape) sweep() statement {
	join, on := s.swept()
	return s.table.deleteChildren("", s.stage, join, on, "s.op = 's'", s.stage)
}

// cascade deletes the rows that belong to a deleted or replaced row of the parent's part, and are not staged
// themselves.
func (p *part) cascade(above *part) statement {
	stage := ""
	if p.plan != nil {
		stage = p.t.stageName()
	}
	join, on := p.belongs(above)
	return p.after.deleteChildren("DISTINCT ", above.t.stageName(), join, on, "s.op IN ('d', 'r')", stage)
}

// deleteChildren deletes the rows of a table that are deleted with a staged row s of other tables, except those in the
// table's own staging table own; "" means none. EXCEPT looks at each row once, however the server joins.
func (t *relation) deleteChildren(distinct, others, join, on, where, own string) statement {
	var key, staged, is, order []string
	for i, k := range t.Key {
		column := fmt.Sprintf("c%d", k)
		key, staged = append(key, t.column(k)+" AS "+column), append(staged, "s."+column)
		is, order = append(is, t.column(k)+" = g."+column), append(order, fmt.Sprint(i+1))
	}
	except := ""
	if own != "" {
		except = fmt.Sprintf("\n  EXCEPT SELECT %s FROM %s s WHERE s.op IS DISTINCT FROM 's'", strings.Join(staged, ", "), own)
	}
	return statement{tally: removed, sql: fmt.Sprintf("DELETE FROM %s t\nUSING (\n  SELECT %s%s\n  FROM %s s%s JOIN %s t ON %s\n  WHERE %s%s\n  ORDER BY %s) g\nWHERE %s",
		t.ident, distinct, strings.Join(key, ", "), others, join, t.ident, on, where, except, strings.Join(order, ", "), and(is...))}
}

// belongs returns the condition that a row of the table belongs to a staged row of the parent's part; join is what
// stands between the two.
func (p *part) belongs(above *part) (join, on string) {
	owner := p.newShape(p.b, nil).owner()
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
		all = append(all, fmt.Sprintf(equal, p.after.column(at), to))
	}
	return "", and(all...)
}

// stagedKey returns a part of a staged row's key as in messages.
func (p *part) stagedKey(i int) string {
	k := p.b.Table.Key[i]
	if c := &p.b.Table.Columns[k]; !c.Hidden {
		return fmt.Sprintf("s.c%d", caps.Find(&p.after.Table, c.Name, k))
	}
	return "s." + hiddenName(k)
}
