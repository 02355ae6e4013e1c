package sqlite

import (
	"slices"

	lib "modernc.org/sqlite/lib"

	"github.com/weirsync/weir/internal/fold"
)

// A rowBuffer has the rows that are written next, as many as one statement takes. What it has of them is good until the
// next reset: a value's text is the batch's memory.
type rowBuffer struct {
	rows   []*fold.Row
	values []value // that they set, by the columns of the batch
	// If rows have versions, found is what the database has of them, and resolved what they become: rows are these.
	found    []fold.Stored
	resolved []fold.Resolved
	states   []byte // memory that found points into
}

// reset makes room for the values of rows.
func (n *rowBuffer) reset(l *layout, rows []*fold.Row) {
	values := len(rows) * len(l.cols)
	n.rows, n.values = rows, slices.Grow(n.values[:0], values)[:values]
}

// read reads what the rows set. coming are the rows of the batch from the first on.
func (n *rowBuffer) read(l *layout, coming []*fold.Row) {
	for i, r := range n.rows {
		l.b.PrefetchValues(coming[i:])
		l.read(n.of(i), r)
	}
}

// of returns the values of a row.
func (n *rowBuffer) of(i int) []value {
	width := len(n.values) / len(n.rows)
	return n.values[i*width : (i+1)*width]
}

// areNew reports whether the rows may all be new ones that only set values, none of which is long.
func (n *rowBuffer) areNew() bool {
	for i, r := range n.rows {
		if r.Deleted || r.Replaces || r.Sweeps || len(n.found) > 0 && (n.found[i].Exists || n.resolved[i].Unchanged) {
			return false
		}
	}
	return !slices.ContainsFunc(n.values, func(v value) bool {
		return (v.kind == lib.SQLITE_TEXT || v.kind == lib.SQLITE_BLOB) && len(v.text) > manyText
	})
}
