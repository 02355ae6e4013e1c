package postgres

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/fold"
)

// This file is about rows with versions that belong to rows of others: a delete of one of these counts
// as one of them.

// follows returns the part that the rows of a part belong to, if deletes of its rows count for them;
// nil where they do not.
func (p *part) follows() *part {
	if p.b.Child == nil || p.set || !p.b.Versioned() {
		return nil
	}
	if above := p.a.parts[p.b.Child.Parent]; above.b.Versioned() {
		return above
	}
	return nil
}

// deleted calls each with the parts above that look for their rows, and the numbers of those of them
// that some message deletes.
func (p *part) deleted(each func(above *part, numbers []int)) {
	for q := p.follows(); q != nil; q = q.follows() {
		var numbers []int
		for n, r := range q.writes {
			if q.lookup != nil && q.b.Takes(r) != nil {
				numbers = append(numbers, n)
			}
		}
		if len(numbers) > 0 {
			each(q, numbers)
		}
	}
}

// mayFollow reports whether the table may have rows that deletes of other tables' count for. One that the flush makes
// has those of pieces that are written.
func (p *part) mayFollow() (may bool) {
	if p.b.Used() && (p.t.Exists || p.a.piecewise) {
		p.deleted(func(*part, []int) { may = true })
	}
	return may
}

// followed is a statement that reads the keys of the rows below those of a part.
type followed struct {
	above     *part
	statement int
}

// lookBelow adds what reads which rows the table has below those that are deleted, and what is kept
// beside them.
func (p *part) lookBelow() {
	if !p.mayFollow() {
		return
	}
	d, s, t := p.a.d, p.a.script, &p.after
	parts := p.keyParts()
	if p.b.Scope == fold.RowScope {
		parts = append(parts, fmt.Sprintf("(%s)::text", p.version()))
	}
	var ranges []string
	p.deleted(func(above *part, numbers []int) {
		var in []string
		for _, n := range numbers {
			in = append(in, fmt.Sprint(n))
			from := p.b.KeysBelow(above.b, above.writes[n])
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

// after is what comes after all keys that begin with some bytes.
func after(prefix []byte) []byte {
	next := slices.Clone(prefix)
	for i := len(next) - 1; i >= 0; i-- {
		if next[i]++; next[i] != 0 {
			return next[:i+1]
		}
	}
	return bytes.Repeat([]byte{0xff}, 64) // no key is so: its parts end with their lengths
}

// keyParts is SQL for each part of the key of a row t as messages have it, as JSON.
func (p *part) keyParts() (parts []string) {
	owner := p.a.d.newShape(p.b, p.t, p.after, nil).owner()
	var hidden []string
	if owner != nil {
		hidden = owner.finder(nil).Parts(owner.To, "t."+ident(p.after.Columns[owner.at].Name))
	}
	for _, k := range p.b.Table.Key {
		c, sql := &p.b.Table.Columns[k], ""
		if c.Hidden {
			sql = hidden[slices.Index(owner.From, k)]
		} else {
			sql = p.after.compared(caps.Find(&p.after.Table, c.Name, k))
		}
		parts = append(parts, "to_json("+sql+")::text")
	}
	return parts
}

// follow adds the rows that were found below those that are deleted to those that are resolved, in the
// order of their keys.
func (p *part) follow(all []storedRow, found []result) ([]storedRow, error) {
	if len(p.lookup.keys) == 0 {
		return all, nil
	}
	was := map[string]fold.Stored{}
	if p.lookup.states >= 0 {
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
	}
	taking, key := p.resolver.Taking(p.writes), len(p.b.Table.Key)
	for _, f := range p.lookup.keys {
		for _, row := range found[f.statement].rows {
			taken := taking.Add(row[1:1+key], f.above.b.Takes(f.above.writes[number(row[0])]))
			if p.b.Scope == fold.RowScope && taken != nil {
				was[string(taken.Key)] = fold.Stored{Exists: true, Version: row[1+key]}
			}
		}
	}
	rows := taking.Rows()
	for _, r := range rows {
		all = append(all, storedRow{row: r, was: was[string(r.Key)]})
	}
	order := fold.KeyOrder(&p.b.Table)
	slices.SortFunc(all, func(x, y storedRow) int { return order(x.row.Key, y.row.Key) })
	return all, nil
}
