package postgres

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/sink"
)

// Rows that belong to rows of other tables. With versions, a delete of the parent counts as a delete of its rows;
// without, deleting or replacing the parent deletes them. Rows of a set are values in their parent's row.

// follows returns the parent's part, if deletes of its rows count for the part's rows; otherwise nil.
func (p *part) follows() *part {
	if p.b.Child == nil || p.isSet || !p.b.Versioned() {
		return nil
	}
	if parent := p.a.parts[p.b.Child.Parent]; parent.b.Versioned() {
		return parent
	}
	return nil
}

// deleted calls each with an ancestor's part that looks up its rows, and the indexes of its rows that a message
// deletes.
func (p *part) deleted(each func(above *part, numbers []int)) {
	for q := p.follows(); q != nil; q = q.follows() {
		var numbers []int
		for n, r := range q.writes {
			if q.lookup != nil && q.b.NewestDelete(r) != nil {
				numbers = append(numbers, n)
			}
		}
		if len(numbers) > 0 {
			each(q, numbers)
		}
	}
}

// mayFollow reports whether the table may have rows for which deletes of other tables' rows count. A table that the
// flush creates has the rows of the pieces already written.
func (p *part) mayFollow() (may bool) {
	if p.b.Used() && (p.t.Exists || p.a.piecewise) {
		p.deleted(func(*part, []int) { may = true })
	}
	return may
}

// followed is a statement that reads the keys of the children of a part's rows.
type followed struct {
	above     *part
	statement int
}

// askChildren adds statements that read the table's children of deleted rows, and their stored states.
func (p *part) askChildren() {
	if !p.mayFollow() {
		return
	}
	d, s, t := p.a.d, p.a.script, &p.after
	parts := p.newShape(p.b, nil).keyParts(&p.b.Table)
	if p.b.Scope == fold.RowScope {
		parts = append(parts, fmt.Sprintf("(%s)::text", p.version()))
	}
	var ranges []string
	p.deleted(func(above *part, numbers []int) {
		var in []string
		for _, n := range numbers {
			in = append(in, fmt.Sprint(n))
			from := p.b.ChildKeyPrefix(above.b, above.writes[n])
			ranges = append(ranges, fmt.Sprintf(`('\x%x'::bytea, '\x%x'::bytea)`, from, after(from)))
		}
		join, belongs := p.belongs(above)
		p.lookup.keys = append(p.lookup.keys, followed{above, s.add("SELECT s.n, %s\nFROM %s s%s JOIN %s t ON %s\nWHERE s.n IN (%s)",
			strings.Join(parts, ", "), above.t.stageName(), join, t.ident, belongs, strings.Join(in, ", "))})
	})
	if p.b.Scope == fold.ColumnScope {
		p.lookup.states = s.add("SELECT encode(v.key, 'hex'), encode(v.state, 'hex')\nFROM (VALUES %s) g (low, high)\n  JOIN %s.weir_versions v ON v.tbl = %s AND v.key >= g.low AND v.key < g.high",
			strings.Join(ranges, ", "), d.schema, literal(d.fullName(t)))
	}
}

// after returns a bound above all keys that begin with prefix.
func after(prefix []byte) []byte {
	next := slices.Clone(prefix)
	for i := len(next) - 1; i >= 0; i-- {
		if next[i]++; next[i] != 0 {
			return next[:i+1]
		}
	}
	return bytes.Repeat([]byte{0xff}, 64) // above every key: a key's parts end with their lengths
}

// keyParts returns SQL, as JSON, for each part of the key of a row t as in messages of a table.
func (s *shape) keyParts(of *schema.Table) (parts []string) {
	owner := s.owner()
	var hidden []string
	if owner != nil {
		hidden = owner.finder(nil).Parts(owner.To, s.table.column(owner.at))
	}
	for _, k := range of.Key {
		c, sql := &of.Columns[k], ""
		if c.Hidden {
			sql = hidden[slices.Index(owner.From, k)]
		} else {
			sql = s.table.column(caps.Find(&s.table.Table, c.Name, k))
		}
		parts = append(parts, "to_json("+sql+")::text")
	}
	return parts
}

// follow adds the children found of deleted rows to the rows to resolve, in key order.
func (p *part) follow(all []storedRow, found []result) ([]storedRow, error) {
	if len(p.lookup.keys) == 0 {
		return all, nil
	}
	was := map[string]fold.Stored{}
	for _, row := range found[p.lookup.states].rows {
		key, err := unhex(row[0])
		if err != nil {
			return nil, err
		}
		state, err := unhex(row[1])
		if err != nil {
			return nil, err
		}
		was[string(key)] = fold.Stored{Exists: true, State: state}
	}
	cascade, key := p.resolver.Cascade(p.writes), len(p.b.Table.Key)
	for _, f := range p.lookup.keys {
		for _, row := range found[f.statement].rows {
			child := cascade.Add(row[1:1+key], f.above.b.NewestDelete(f.above.writes[sink.Number(row[0])]))
			if p.b.Scope == fold.RowScope && child != nil {
				was[string(child.Key)] = fold.Stored{Exists: true, Version: row[1+key]}
			}
		}
	}
	rows := cascade.Rows()
	for _, r := range rows {
		all = append(all, storedRow{row: r, was: was[string(r.Key)]})
	}
	order := fold.KeyOrder(&p.b.Table)
	slices.SortFunc(all, func(x, y storedRow) int { return order(x.row.Key, y.row.Key) })
	return all, nil
}

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
// sweeps instead, and a part with versions looks up the rows that are deleted with their parents.
func (a *attempt) cascading(p *part) (cascading []*part) {
	if !p.b.Used() || p.follows() != nil {
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
