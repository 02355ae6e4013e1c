package fold

import "github.com/weirsync/weir/internal/feed"

// removeRow applies a delete with version v to a row whose values are all older.
func (b *Batch) removeRow(r *Row, vs *versions, v ref) {
	for i := range r.cells {
		if !b.rules.table.Columns[i].Key && r.cells[i] != 0 {
			r.cells[i], vs.cells[i] = 0, 0
		}
	}
	vs.live, vs.ended = 0, v
}

// row resolves a row that has one version, its newest message's.
func (v *Resolver) row(out Row, vs *versions, was Stored) Resolved {
	b := &v.b
	if !was.Exists || was.Version == nil || vs.tomb != 0 && !feed.Older(b.arena.get(vs.tomb), was.Version) {
		out.Deleted, out.Replaces = vs.live == 0 && !vs.kept, vs.tomb != 0
		return Resolved{Row: out, Unchanged: out.Deleted && !was.Exists}
	}
	some := v.drop(&out, vs, func(c int, version []byte) bool {
		return !b.Table.Columns[c].Merge.Computes() && feed.Older(version, was.Version)
	})
	return Resolved{Row: out, Unchanged: !some}
}
