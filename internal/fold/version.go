package fold

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold/schema"
)

// maxVersion is the maximum length of a version in bytes: each row stores some.
const maxVersion = 256

// versions are the versions of a row's messages in a batch.
type versions struct {
	live  ref // the newest message that sets columns; 0 if none survives
	tomb  ref // the newest delete that was not outdated; 0 means none
	ended ref // the newest delete that no newer message of the row survived
	// ensured: another row refers to the row. kept: and no delete came after that.
	ensured, kept bool
	cells         []ref // by column, like the row's cells
}

// Versioned reports whether the batch's rows must be resolved against the database before they are written.
func (b *Batch) Versioned() bool { return b.Scope != "" }

// readVersion reads the version of the change.
func (f *Folder) readVersion(v *feed.Field) error {
	switch {
	case v.Value == nil:
		return feed.Errorf(feed.BadVersion, "the version field %q is missing", f.opt.Version)
	case v.Kind == feed.Null || v.Kind == feed.JSON:
		return feed.Errorf(feed.BadVersion, "the version field %q is %s", f.opt.Version, v.Kind)
	}
	f.now.version = feed.AppendText(f.now.version[:0], v.Value, v.Kind)
	switch {
	case len(f.now.version) == 0:
		return feed.Errorf(feed.BadVersion, "the version field %q is empty", f.opt.Version)
	case len(f.now.version) > maxVersion:
		return feed.Errorf(feed.BadVersion, "the version has %d bytes: at most %d", len(f.now.version), maxVersion)
	}
	return nil
}

// A versionStore has the versions of a batch's rows.
type versionStore struct {
	all  []versions // by Row.versions - 1
	last ref        // the version that was put into the arena last
}

const perVersions = 40

func (s *versionStore) bytes() int { return perVersions * cap(s.all) }

func (s *versionStore) reset() {
	clear(s.all)
	*s = versionStore{all: s.all[:0]}
}

// of returns the versions of a row, nil if it has none.
func (s *versionStore) of(r *Row) *versions {
	if r.versions == 0 {
		return nil
	}
	return &s.all[r.versions-1]
}

// findOrMake returns the versions of a row, and creates them if it has none.
func (s *versionStore) findOrMake(r *Row) *versions {
	if r.versions == 0 {
		s.all = append(s.all, versions{})
		r.versions = int32(len(s.all))
	}
	return s.of(r)
}

// putVersion copies a version into the arena, unless it is the last one put there.
func (b *Batch) putVersion(v []byte) ref {
	if last := &b.versions.last; *last == 0 || !bytes.Equal(b.arena.get(*last), v) {
		*last = b.arena.put(v)
	}
	return b.versions.last
}

// versionAt returns the version at r; nil means none.
func (b *Batch) versionAt(r ref) []byte {
	if r == 0 {
		return nil
	}
	return b.arena.get(r)
}

// older reports whether version v is older than the one at r. Nothing is older than a missing one.
func (b *Batch) older(v []byte, r ref) bool { return r != 0 && feed.Older(v, b.arena.get(r)) }

// mergeVersioned merges a message into its row unless it is outdated.
//
// The result does not depend on the database: from it, Resolve computes what applying the messages one by one would
// give.
func (b *Batch) mergeVersioned(r *Row, m *message) {
	vs := b.versions.findOrMake(r)
	if !vs.lives() {
		b.setKey(r, m)
	}
	if m.op == Ensure {
		vs.ensure(r)
		return
	}
	if m.op.ends() {
		b.deleteVersion(r, m.version)
	}
	outdated := b.outdated(vs, m.version)
	if m.op == Delete || outdated && !b.rules.merges {
		return
	}
	v, width := b.putVersion(m.version), len(b.rules.table.Columns)
	newest := !b.older(m.version, vs.live)
	if newest {
		vs.live = v
	}
	b.rows.cells.at(&vs.cells, int32(width-1), width)
	for i := range m.values {
		if c := m.values[i]; b.rules.table.Columns[c.col].Merge.Computes() {
			b.mergeAnyVersion(r, vs, m, c, v)
		} else if outdated {
			continue
		} else if newest || !b.older(m.version, vs.cells[c.col]) {
			vs.cells[c.col] = v
			have := b.rows.cells.at(&r.cells, c.col, width)
			*have = m.put(&b.arena, *have, c.field)
		}
	}
	vs.mark(r)
}

// mergeAnyVersion merges a message into a column that applies every message regardless of its version. The column's
// version is the newest of them.
func (b *Batch) mergeAnyVersion(r *Row, vs *versions, m *message, c cell, v ref) {
	if !b.older(m.version, vs.cells[c.col]) {
		vs.cells[c.col] = v
	}
	have := b.rows.cells.at(&r.cells, c.col, len(b.rules.table.Columns))
	*have = b.mergeValue(r, *have, m, c, false)
}

// outdated reports whether a message with version v is too old to change its row.
func (b *Batch) outdated(vs *versions, v []byte) bool {
	if b.rules.scope == RowScope {
		return b.older(v, vs.live)
	}
	return b.older(v, vs.tomb)
}

// deleteVersion applies a delete with version v to what is not newer in the row.
func (b *Batch) deleteVersion(r *Row, v []byte) {
	vs := b.versions.of(r)
	if b.outdated(vs, v) {
		return
	}
	at := b.putVersion(v)
	if b.rules.scope == RowScope {
		b.removeRow(r, vs, at)
	} else {
		b.removeColumns(r, vs, at)
	}
	if !b.older(v, vs.tomb) {
		vs.tomb = at
	}
	vs.kept = false
	vs.mark(r)
}

// ensure makes a row exist because another row refers to it.
func (vs *versions) ensure(r *Row) {
	vs.ensured, vs.kept = true, true
	vs.mark(r)
}

// mark sets the row's flags from its versions.
func (vs *versions) mark(r *Row) {
	r.Deleted, r.Replaces = !vs.lives(), vs.ended != 0
}

// lives reports whether a message of the batch makes the row exist.
func (vs *versions) lives() bool { return vs.live != 0 || vs.kept }

// CheckVersion returns an error if a table cannot store the options' version.
func CheckVersion(t *schema.Table, o Options) error {
	if o.Version == "" || o.Scope != RowScope || !t.Exists {
		return nil
	}
	at := o.Limits.Find(t, o.Version, 0)
	switch {
	case at < 0 && o.addsColumns(t):
		return nil
	case at < 0:
		return fmt.Errorf("table %q has no column %q for the row's version: add it, or leave --version-scope row out", t.Name, o.Version)
	}
	c := &t.Columns[at]
	switch {
	case c.Generated:
		return fmt.Errorf("the column %q of table %q is computed by the database: the row's version needs a column that weir can write", c.Name, t.Name)
	case c.Type == schema.Real && c.Size == 4, c.Type == schema.Number && strings.Contains(c.Decl, "("):
		return fmt.Errorf("the column %q of table %q is %s, which rounds: the row's version needs a bigint, a numeric without a precision, or text", c.Name, t.Name, c.Decl)
	}
	switch c.Type {
	case schema.Int, schema.Real, schema.Number, schema.Text, schema.Any:
		return nil
	default:
		return fmt.Errorf("the column %q of table %q is %s, which the database formats differently from the feed: the row's version needs a number or text", c.Name, t.Name, c.Decl)
	}
}
