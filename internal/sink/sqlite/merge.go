package sqlite

import (
	"encoding/hex"
	"slices"
	"strconv"

	lib "modernc.org/sqlite/lib"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/merge"
)

// insertsAsFolded reports whether an inserted row gets the batch's values unchanged.
func (l *layout) insertsAsFolded() bool {
	return !slices.ContainsFunc(l.merged, func(i int) bool {
		c := &l.b.Table.Columns[i]
		return c.Merge == merge.First || c.Merge == merge.Patch || c.MayOverflow()
	})
}

// merge replaces vals, the values that a row sets, by the merged values. sel is at the row in the database; nil: it is
// missing, or replaced. A [*feed.Error] rejects only this row.
func (l *layout) merge(r *fold.Row, vals []value, sel *stmt) error {
	for _, i := range l.merged {
		v, c := &vals[i], &l.b.Table.Columns[i]
		if v.kind == 0 {
			continue
		}
		var have []byte
		if sel != nil && !sel.null(i) {
			l.have = sel.appendStored(l.have[:0], i)
			have = l.have
		}
		if c.Merge == merge.First { // no message needs to have the value, see findReferred
			if have != nil {
				v.kind = 0
			}
			continue
		}
		raw, ok := l.b.AppendMerged(nil, r, i, have)
		if !ok {
			return feed.Errorf(feed.BadValue, "column %q has %q, which the merge function %s cannot use", c.Name, feed.Clip(have), c.Merge)
		}
		if raw == nil { // the column is unchanged
			v.kind = 0
			continue
		}
		if to := &l.table.Columns[l.cols[i]]; c.MayOverflow() && !to.Own {
			if err := to.Admit(raw, feed.KindOf(raw)); err != nil {
				return err
			}
		}
		*v = convert(raw, l.types[i])
	}
	return nil
}

// appendStored appends a column's value in the statement's row, as the text in a feed.
func (s *stmt) appendStored(dst []byte, col int) []byte {
	switch s.kind(col) {
	case lib.SQLITE_INTEGER:
		return strconv.AppendInt(dst, s.int(col), 10)
	case lib.SQLITE_FLOAT:
		return feed.AppendReal(dst, s.real(col))
	case lib.SQLITE_BLOB:
		return hex.AppendEncode(append(dst, `\x`...), s.blob(col))
	}
	return append(dst, s.bytes(col)...)
}
