package fold

import (
	"bytes"
	"slices"

	"github.com/weirsync/weir/internal/feed"
)

// removeColumns removes the values of a row that are not newer than a delete with version v. The columns get their
// defaults, because the database's row may survive thanks to newer messages.
func (b *Batch) removeColumns(r *Row, vs *versions, v ref) {
	b.marks = true // with versions, any delete may leave defaults; see Resolver.clear
	text := b.arena.get(v)
	for i := range r.cells {
		if !b.rules.table.Columns[i].Key && r.cells[i] != 0 && !b.older(text, vs.cells[i]) {
			r.cells[i] = b.putIfNull(nil)
		}
	}
	if !b.older(text, vs.live) {
		vs.live, vs.ended = 0, v
	}
}

// column resolves a row whose columns have a version each.
func (v *Resolver) column(out Row, vs *versions, was Stored) (res Resolved, err error) {
	b, now := &v.b, &v.now
	if err := now.decode(was.State, len(v.names)); err != nil {
		return res, err
	}
	if !was.Exists { // whoever removed the row, nothing newer is left of it
		now.live = nil
		clear(now.columns)
	}
	// A row that only a reference created is older than all messages.
	bare := vs.ensured || was.Exists && now.live == nil
	if vs.tomb != 0 && !before(b.arena.get(vs.tomb), now.tomb) {
		bare = vs.kept
	}
	out.Replaces = vs.ended != 0 && !before(b.arena.get(vs.ended), now.tomb) && !before(b.arena.get(vs.ended), now.live)
	removed := v.applyDelete(vs)
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
			now.columns[n] = nil // a delete cleared it
		}
		return false
	})
	if !out.Replaces && v.clear(&out) {
		some = true
	}
	out.Deleted = now.live == nil && !bare
	unchanged := !some
	switch {
	case was.State == nil: // nobody checked whether the row exists
		unchanged = false
	case !was.Exists:
		unchanged = out.Deleted
	case out.Replaces:
		unchanged = false
	}
	state := now.encode()
	if bytes.Equal(state, was.State) || was.State == nil && now.isEmpty() {
		state = nil
	}
	return Resolved{Row: out, Unchanged: unchanged, State: state}, nil
}

// applyDelete applies the batch's newest delete to the row's state. It returns the version of the delete that the
// batch's messages must be compared with, nil if that is the batch's own: they already were.
func (v *Resolver) applyDelete(vs *versions) (removed []byte) {
	b, now := &v.b, &v.now
	v.cleared = v.cleared[:0]
	if vs.tomb == 0 || before(b.arena.get(vs.tomb), now.tomb) {
		return now.tomb
	}
	now.tomb = b.arena.get(vs.tomb)
	for n, version := range now.columns {
		if version != nil && !before(now.tomb, version) {
			now.columns[n] = nil
			v.cleared = append(v.cleared, int32(n))
		}
	}
	if !before(b.arena.get(vs.tomb), now.live) {
		now.live = nil
	}
	return nil
}

// before reports whether a version is older than another. Nothing is older than a missing version.
func before(version, other []byte) bool { return other != nil && feed.Older(version, other) }

// clear sets the defaults of the columns that a delete cleared in a row that survives, and reports whether there are
// any.
func (v *Resolver) clear(out *Row) (some bool) {
	for _, n := range v.cleared {
		c := slices.Index(v.columns, n)
		if v.now.columns[n] != nil || c < 0 {
			continue
		}
		if !some {
			out.cells = append(slices.Clone(out.cells), make([]ref, max(0, len(v.columns)-len(out.cells)))...)
		}
		out.cells[c], some = defaultOnly, true
	}
	return some
}
