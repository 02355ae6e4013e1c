package fold

import (
	"bytes"
	"slices"

	"github.com/weirsync/weir/internal/feed"
)

// removeColumns has a delete of version v take the values of a row that are not newer. They
// leave their columns' defaults behind, for the database may have a row that lives on by newer
// messages.
func (b *Batch) removeColumns(r *Row, vs *versions, v ref) {
	b.marks = true // with versions, a delete may leave defaults behind wherever it goes; see Resolver.clear
	text := b.arena.get(v)
	for i := range r.cells {
		if !b.rules.table.Columns[i].Key && r.cells[i] != 0 && !b.older(text, vs.cells[i]) {
			r.cells[i] = b.late(nil)
		}
	}
	if !b.older(text, vs.live) {
		vs.live, vs.ended = 0, v
	}
}

// column resolves a row each of whose columns has a version.
func (v *Resolver) column(out Row, vs *versions, was Stored) (res Resolved, err error) {
	b, now := &v.b, &v.now
	if err := now.decode(was.State, len(v.names)); err != nil {
		return res, err
	}
	if !was.Exists { // whoever removed it, nothing of it is left that could be newer
		now.live = nil
		clear(now.columns)
	}
	// A row that no message made, but another one needs, is older than all messages.
	bare := vs.ensured || was.Exists && now.live == nil
	if vs.tomb != 0 && !b.outlived(vs.tomb, now.tomb) {
		bare = vs.kept
	}
	out.Replaces = vs.ended != 0 && !b.outlived(vs.ended, now.tomb) && !b.outlived(vs.ended, now.live)
	above := v.tombAbove(&out)
	removed := newest(v.applyDelete(vs), above)
	if vs.live != 0 {
		if live := b.arena.get(vs.live); !before(live, removed) && !before(live, now.live) {
			now.live = live
		}
	}
	some := v.drop(&out, vs, func(c int, version []byte) bool {
		n := v.columns[c]
		older := before(version, now.columns[n])
		if before(version, removed) || older && !b.Table.Columns[c].Merge.Computes() {
			return true
		}
		if older {
			return false
		}
		if now.columns[n] = version; b.Initial(&out, c) {
			now.columns[n] = nil // a delete took it
		}
		return false
	})
	if !out.Replaces && v.clear(&out) {
		some = true
	}
	out.Deleted = now.live == nil && !bare
	unchanged := !some
	switch {
	case was.State == nil: // nobody looked whether it exists
		unchanged = false
	case !was.Exists:
		unchanged = out.Deleted
	case out.Replaces:
		unchanged = false
	}
	v.keepTomb(&out, newest(now.tomb, above))
	state := now.encode()
	if bytes.Equal(state, was.State) || was.State == nil && now.isEmpty() {
		state = nil
	}
	return Resolved{Row: out, Unchanged: unchanged, State: state}, nil
}

// applyDelete has the batch's newest delete take what is not newer of the row's state, and
// returns the version of the delete that the batch's messages have to be compared with; nil
// where that is the batch's own, with which they were.
func (v *Resolver) applyDelete(vs *versions) (removed []byte) {
	b, now := &v.b, &v.now
	v.cleared = v.cleared[:0]
	if vs.tomb == 0 || b.outlived(vs.tomb, now.tomb) {
		return now.tomb
	}
	now.tomb = b.arena.get(vs.tomb)
	for n, version := range now.columns {
		if version != nil && !before(now.tomb, version) {
			now.columns[n] = nil
			v.cleared = append(v.cleared, int32(n))
		}
	}
	if !b.outlived(vs.tomb, now.live) {
		now.live = nil
	}
	return nil
}

// before reports whether a version is older than another one, if there is one.
func before(version, other []byte) bool { return other != nil && feed.Older(version, other) }

// newest returns the newer one of two versions, the first where they are equal; nil is none.
func newest(version, other []byte) []byte {
	if version == nil || before(version, other) {
		return other
	}
	return version
}

// outlived reports whether a delete is older than another version, if there is one.
func (b *Batch) outlived(deleted ref, version []byte) bool {
	return before(b.arena.get(deleted), version)
}

// clear gives the columns their default whose values a delete took from a row that lives
// on, and reports whether there are any.
func (v *Resolver) clear(out *Row) (some bool) {
	for _, n := range v.cleared {
		c := slices.Index(v.columns, n)
		if v.now.columns[n] != nil || c < 0 {
			continue
		}
		if !some {
			out.cells = append(slices.Clone(out.cells), make([]ref, max(0, len(v.columns)-len(out.cells)))...)
		}
		out.cells[c], some = onlyInitial, true
	}
	return some
}
