package postgres

import (
	"fmt"
	"slices"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/merge"
	"github.com/weirsync/weir/internal/schema"
)

// A shape is all that the statements depend on that write some rows of a batch: the table, the columns that the rows
// name, and what the rows do. Rows of one shape are written by the same statements.
type shape struct {
	table    relation // as it is written to
	stage    string   // the staging table in SQL
	columns  []staged
	resolved []resolved
	stamps   []stamped
	now      string // the literal of the batch's time
	acts     acts
	marks    int // how many marks a staged row has; see [staged]
}

// acts are what rows do besides setting columns.
type acts struct {
	deletes  int  // how many rows are deleted
	replaces bool // some rows start from nothing
	resets   bool // some columns of rows get their default
	// sweeps is how many parts of the key the rows have that are keys of parents alone; 0: there are none. See
	// [fold.Explosion.Explode].
	sweeps int
}

// marked reports whether staged rows say what they do.
func (a *acts) marked() bool { return a.deletes > 0 || a.replaces || a.sweeps > 0 }

// staged is a column that some row of the batch names.
type staged struct {
	at   int // in the table
	from int // in the batch
	// The marks of rows in which it starts over from NULL, see [startsOver], and of rows in which it gets its default; -1:
	// no row has one.
	null, initial int
	resolved      bool // no row names it: see [resolved]
	merge         merge.Function
}

// stamped is a column of the table that is a stamp.
type stamped struct {
	at   int
	when schema.Stamp
}

// A copiedValue is a column of the staging table that messages have the values of, and as which column of a table.
type copiedValue struct {
	name string
	from int // in the batch
	of   *relation
	at   int    // in it
	kind string // its type in the staging table
}

// copied are the values that are copied of each row, in their order.
func (s *shape) copied() (all []copiedValue) {
	for _, c := range s.columns {
		if !c.resolved {
			all = append(all, copiedValue{fmt.Sprintf("c%d", c.at), c.from, &s.table, c.at, s.table.stagedAs(c.at, c.merge)})
		}
	}
	for _, r := range s.resolved {
		for i, k := range r.key {
			all = append(all, copiedValue{hiddenName(r.From[i]), r.From[i], k.table, k.at, k.table.cols[k.at].staged})
		}
	}
	return all
}

// A use is what rows do with a column of the batch.
type use struct {
	named, null, initial bool
	merge                merge.Function
}

// newShape returns the shape of rows of a batch that are staged in a table. current returns the tables that they name rows of.
func newShape(b *fold.Batch, stage string, table relation, rows []*fold.Row, current func(name string) *relation) *shape {
	s := &shape{table: table, stage: stage, now: quote(b.Time.UTC().Format(stampFormat))}
	place := make([]int, len(b.Table.Columns)) // of the batch's columns in the table
	for i := range place {
		c := &b.Table.Columns[i]
		place[i] = caps.Find(&table.Table, c.Name, i)
		if c.Stamp != schema.NoStamp && place[i] >= 0 {
			s.stamps = append(s.stamps, stamped{place[i], c.Stamp})
		}
	}
	if at := b.Table.Surrogate(); at >= 0 {
		if at = caps.Find(&table.Table, b.Table.Columns[at].Name, at); at >= 0 {
			s.table.Columns = slices.Clone(table.Columns)
			s.table.Columns[at].Generated = true
		}
	}
	uses := s.acts.read(b, rows)
	for i, at := range place {
		if uses[i].named && at >= 0 && !table.Columns[at].Generated {
			s.add(at, i, uses[i], false)
		}
	}
	s.resolve(&b.Table, uses, current)
	return s
}

// read takes from rows what they do, and what with each column of the batch.
func (a *acts) read(b *fold.Batch, rows []*fold.Row) []use {
	uses := make([]use, len(b.Table.Columns))
	for i := range uses {
		uses[i].merge = b.Table.Columns[i].Merge
	}
	for n, r := range rows {
		b.CPUPrefetch(rows[n:])
		if r.Deleted {
			a.deletes++
		}
		a.replaces = a.replaces || r.Replaces && !r.Deleted
		if r.Sweeps && a.sweeps == 0 { // all of them have the same columns
			for _, k := range b.Table.Key {
				if b.Value(r, k) != nil {
					a.sweeps++
				}
			}
		}
		for i := range uses {
			v := b.Value(r, i)
			if v != nil {
				uses[i].named = true
				uses[i].null = uses[i].null || startsOver(b, r, i)
			}
			if !r.Deleted && b.Initial(r, i) {
				uses[i].named, uses[i].initial = true, true
				a.resets = a.resets || v == nil
			}
		}
	}
	for _, k := range b.Table.Key {
		uses[k].named = uses[k].named || a.sweeps > 0 // a row may be compared with one that has none
	}
	return uses
}

// startsOver reports whether a row sets a column to NULL, or to an absolute value because an earlier message set NULL.
func startsOver(b *fold.Batch, r *fold.Row, col int) bool {
	v := b.Value(r, col)
	return v != nil && (v[0] == 'n' || b.Table.Columns[col].Merge.Computes() && !r.Replaces && !b.Relative(r, col))
}

// add stages a column of the batch as one of the table.
func (s *shape) add(at, from int, u use, resolved bool) {
	i := slices.IndexFunc(s.columns, func(c staged) bool { return c.at == at })
	if i < 0 {
		i = len(s.columns)
		s.columns = append(s.columns, staged{at: at, from: from, null: -1, initial: -1, resolved: resolved, merge: u.merge})
	}
	c := &s.columns[i]
	if c.null < 0 && u.null {
		c.null = s.marks
		s.marks++
	}
	if c.initial < 0 && u.initial {
		c.initial = s.marks
		s.marks++
	}
}

// keysOnly is the shape with which rows are looked for: their keys alone are staged.
func (s *shape) keysOnly() *shape {
	k := *s
	k.marks, k.acts = 0, acts{}
	k.columns = slices.DeleteFunc(slices.Clone(s.columns), func(c staged) bool { return !s.table.Columns[c.at].Key })
	k.resolved = slices.DeleteFunc(slices.Clone(s.resolved), func(r resolved) bool { return !r.Owner })
	return &k
}

// copyable reports whether rows can be copied into the table itself if all are new, which takes a third of the time.
// If one is not, the database refuses it, and the flush is sent again. Where it may not, because a trigger leaves a row out
// or a table that inherits from this one has it, rows are not copied.
func (s *shape) copyable() bool {
	return s.acts.deletes == 0 && len(s.columns)+len(s.stamps) > 0 && len(s.resolved) == 0 && !s.table.policed && !s.table.triggers && !s.table.inherited &&
		!slices.ContainsFunc(s.columns, func(c staged) bool { return s.table.Columns[c.at].Default != "" || c.merge == merge.Patch })
}

// defaults reports whether the table has columns with a default, which may be
// another one each time that it is asked for.
func (s *shape) defaults() bool {
	return slices.ContainsFunc(s.table.Columns, func(c schema.Column) bool { return c.Default != "" && !c.Generated })
}
