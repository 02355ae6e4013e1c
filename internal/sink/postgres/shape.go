package postgres

import (
	"fmt"
	"slices"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/merge"
	"github.com/weirsync/weir/internal/fold/schema"
)

// A shape is everything that determines the statements for some rows of a batch: the table, the columns that the rows
// have, and what the rows do. The same statements write all rows of a shape.
type shape struct {
	table    relation // the table, as it is when it is written
	stage    string   // the staging table in SQL
	columns  []staged
	resolved []resolved
	stamps   []stamped
	now      string // a literal of the batch's time
	acts     acts
	marks    int // number of marks in a staged row; see [staged]
	// fills are what the rows do with columns that have defaults. If there are several, the number of a row's is staged.
	fills []fill
}

// acts are what rows do besides setting columns.
type acts struct {
	deletes  int  // number of deleted rows
	replaces bool // some rows start from nothing
	// sweeps is how many leading parts of the key of a sweeping row belong to its parent; 0: no row sweeps. See
	// [fold.Explosion.Explode].
	sweeps int
}

// marked reports whether staged rows say what they do.
func (a *acts) marked() bool { return a.deletes > 0 || a.replaces || a.sweeps > 0 }

// staged is a column that some row of the batch has.
type staged struct {
	at       int    // in the table
	from     int    // in the batch
	value    string // SQL for its staged value
	null     int    // which mark of a row says that the column starts over from NULL, see [startsOver]; -1: no row has it
	fill     int    // its place in the fills; -1: it has no default
	all      bool   // every row has it
	resolved bool   // no row has it: see [resolved]
	merge    merge.Function
}

// A fill says for each staged column with a default what a row does with it. The database fills in the default itself:
// weir names the column in no INSERT, and assigns DEFAULT.
type fill string

const (
	valued  = 'v' // the row has a value, or NULL
	initial = 'i' // a new row gets the default
	reset   = 'r' // an existing row gets the default, too
)

// stamped is a column of the table that is a stamp.
type stamped struct {
	at   int
	when schema.Stamp
}

// A copiedValue is a column of the staging table that holds values of messages, and the table's column for it.
type copiedValue struct {
	name string
	from int // in the batch
	of   *relation
	at   int    // in the table
	kind string // its type in the staging table
}

// copied returns the values that are copied for each row, in order.
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
	named, null bool
	all         bool // by all rows that do not delete
	merge       merge.Function
}

// newShape returns the shape of rows of a batch that are staged in a table. current returns the tables to which they
// refer.
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
	s.readFills(b, rows)
	return s
}

// readFills finds out what the rows do with columns that have defaults.
func (s *shape) readFills(b *fold.Batch, rows []*fold.Row) {
	n := 0
	for i := range s.columns {
		if c := &s.columns[i]; s.table.Columns[c.at].Default != "" {
			c.fill, n = n, n+1
		}
	}
	if n == 0 {
		s.fills = []fill{""}
		return
	}
	known, scratch := map[string]bool{}, make([]byte, n)
	for _, r := range rows {
		if f := s.fillOf(b, r, scratch); !known[string(f)] {
			known[string(f)] = true
			s.fills = append(s.fills, fill(f))
		}
	}
}

// fillOf returns what a row does with columns that have defaults, in scratch.
func (s *shape) fillOf(b *fold.Batch, r *fold.Row, scratch []byte) []byte {
	for i := range s.columns {
		c := &s.columns[i]
		if c.fill < 0 {
			continue
		}
		v, first := b.Value(r, c.from), b.Initial(r, c.from)
		switch {
		case r.Deleted, v != nil && !first:
			scratch[c.fill] = valued
		case v == nil && first && !r.Replaces:
			scratch[c.fill] = reset
		default:
			scratch[c.fill] = initial
		}
	}
	return scratch
}

// has reports whether rows with the fill have a value for a column.
func (f fill) has(c *staged) bool { return f == "" || c.fill < 0 || f[c.fill] == valued }

// read finds out what the rows do, and what they do with each column of the batch.
func (a *acts) read(b *fold.Batch, rows []*fold.Row) []use {
	uses := make([]use, len(b.Table.Columns))
	for i := range uses {
		uses[i].merge, uses[i].all = b.Table.Columns[i].Merge, true
	}
	for _, r := range rows {
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
			} else if !r.Deleted && !r.Sweeps {
				uses[i].all = false
			}
			if !r.Deleted && b.Initial(r, i) {
				uses[i].named, uses[i].null = true, true
			}
		}
	}
	for _, k := range b.Table.Key {
		uses[k].named = uses[k].named || a.sweeps > 0 // a row may be compared with one without it
	}
	return uses
}

// startsOver reports whether a row sets a column to NULL, or to an absolute value because an earlier message set NULL.
// A column that starts with its default starts with NULL if it has none.
func startsOver(b *fold.Batch, r *fold.Row, col int) bool {
	v := b.Value(r, col)
	return v == nil && b.Initial(r, col) || v != nil && (v[0] == 'n' || b.Table.Columns[col].Merge.Computes() && !r.Replaces && !b.Relative(r, col))
}

// add stages a column of the batch as a column of the table.
func (s *shape) add(at, from int, u use, resolved bool) {
	i := slices.IndexFunc(s.columns, func(c staged) bool { return c.at == at })
	if i < 0 {
		i = len(s.columns)
		s.columns = append(s.columns, staged{at: at, from: from, value: fmt.Sprintf("s.c%d", at), null: -1, fill: -1, all: u.all, resolved: resolved, merge: u.merge})
	}
	c := &s.columns[i]
	if c.all = c.all && u.all; c.null < 0 && u.null && (!c.all || u.merge.Computes()) {
		c.null = s.marks
		s.marks++
	}
}

// keysOnly returns the shape for looking up rows: only their keys are staged.
func (s *shape) keysOnly() *shape {
	k := *s
	k.marks, k.acts, k.fills = 0, acts{}, nil
	k.columns = slices.DeleteFunc(slices.Clone(s.columns), func(c staged) bool { return !s.table.Columns[c.at].Key })
	k.resolved = slices.DeleteFunc(slices.Clone(s.resolved), func(r resolved) bool { return !r.Owner })
	return &k
}

// copyable reports whether rows can be copied into the table itself if all are new, which takes a third of the time. If
// one is not new, the database refuses it, and the flush is resent. If the database might not refuse it, because a
// trigger skips the row or an inheriting table has it, rows are not copied. Nor are they if a column's type is a domain,
// because a COPY that lacks the column does not check its NULL.
func (s *shape) copyable() bool {
	return s.acts.deletes == 0 && len(s.columns)+len(s.stamps) > 0 && len(s.resolved) == 0 && !s.table.triggers && !s.table.inherited &&
		!slices.ContainsFunc(s.columns, func(c staged) bool { return c.fill >= 0 || c.merge == merge.Patch }) &&
		!slices.ContainsFunc(s.table.cols, func(c column) bool { return c.domain })
}
