package fold

import (
	"slices"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/schema"
)

// removeRow has a delete of version v take a row's values, which all are older.
func (b *Batch) removeRow(r *Row, vs *versions, v ref, columns []schema.Column) {
	for i := range r.cells {
		if !columns[i].Key && r.cells[i] != 0 {
			r.cells[i], vs.cells[i] = 0, 0
		}
	}
	vs.live, vs.ended = 0, v
}

// IsWhole reports whether a row sets the version's column, all that it sets has that version, and it deletes nothing: then
// all of it is to be written where the database has no newer version of the row, and else nothing.
func (b *Batch) IsWhole(r *Row) bool {
	vs := &b.versions[r.versions-1]
	if b.Version < 0 || vs.live == 0 || vs.tomb != 0 || vs.ended != 0 || vs.takes != 0 || vs.ensured || vs.cells[b.Version] == 0 {
		return false
	}
	return !slices.ContainsFunc(vs.cells, func(v ref) bool { return v != 0 && v != vs.live && b.older(b.arena.get(v), vs.live) })
}

// row resolves a row whose version is that of its newest message.
func (v *Resolver) row(out Row, vs *versions, was Stored) Resolved {
	b := &v.b
	if !was.Exists || was.Version == nil || vs.tomb != 0 && !feed.Older(b.arena.get(vs.tomb), was.Version) {
		out.Deleted, out.Replaces = vs.live == 0 && !vs.kept, vs.tomb != 0
		return Resolved{Row: out, Unchanged: out.Deleted && !was.Exists}
	}
	some := v.drop(&out, vs, func(_ int, version []byte) bool { return feed.Older(version, was.Version) })
	return Resolved{Row: out, Unchanged: !some}
}
