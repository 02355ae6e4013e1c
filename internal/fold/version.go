package fold

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/schema"
)

// maxVersion is the longest version, in bytes: each row keeps some.
const maxVersion = 256

// versions are those of a row's messages in a batch.
type versions struct {
	live  ref   // the newest of the messages that set columns; 0 where none lives on
	tomb  ref   // the newest of those that delete; 0 is none
	ended ref   // the newest of those that no newer message of the row outlived
	takes ref   // the newest of all, which takes the rows that belong to the row
	cells []ref // by column, as the row's cells
	// ensured tells that another row needs the row, and kept that no delete came behind that.
	ensured, kept bool
}

// Versioned reports whether the batch's rows have to be resolved against what the
// database has before they are written.
func (b *Batch) Versioned() bool { return b.Scope != "" }

// readVersion reads the version of the change at hand.
func (f *Folder) readVersion(v *feed.Field) error {
	switch {
	case v.Value == nil:
		return feed.Errorf(feed.BadVersion, "the version field %q is missing", f.opt.Version)
	case v.Kind == feed.Null || v.Kind == feed.JSON:
		return feed.Errorf(feed.BadVersion, "the version field %q is %s", f.opt.Version, v.Kind)
	}
	f.version = feed.AppendText(f.version[:0], v.Value, v.Kind)
	switch {
	case len(f.version) == 0:
		return feed.Errorf(feed.BadVersion, "the version field %q is empty", f.opt.Version)
	case len(f.version) > maxVersion:
		return feed.Errorf(feed.BadVersion, "the version has %d bytes: at most %d", len(f.version), maxVersion)
	}
	return nil
}

// putVersion copies the version of the change at hand into the batch.
func (b *Batch) putVersion(v []byte) ref {
	if b.version == 0 || !bytes.Equal(b.arena.get(b.version), v) {
		b.version = b.arena.put(v)
	}
	return b.version
}

// versionAt returns the version at r; nil is none.
func (b *Batch) versionAt(r ref) []byte {
	if r == 0 {
		return nil
	}
	return b.arena.get(r)
}

// Takes returns the version of the newest delete among a row's messages, which takes the rows that
// belong to it; nil is none.
func (b *Batch) Takes(r *Row) []byte {
	if r.versions == 0 {
		return nil
	}
	return b.versionAt(b.versions[r.versions-1].takes)
}

// older reports whether version v is before the one at r; a missing one is before all.
func (b *Batch) older(v []byte, r ref) bool { return r != 0 && feed.Older(v, b.arena.get(r)) }

// versionsOf returns the versions of a row, which it makes for one without.
func (b *Batch) versionsOf(r *Row) *versions {
	if r.versions == 0 {
		b.versions = append(b.versions, versions{})
		r.versions = int32(len(b.versions))
	}
	return &b.versions[r.versions-1]
}

// mergeVersioned puts an admitted change into its row where it is not too old.
//
// What a batch makes of the messages of a row does not depend on what came before
// them: with that, Resolve gives what message after message would have.
func (f *Folder) mergeVersioned(b *Batch, c *Change, at Place) {
	width := len(f.table.Columns)
	n, made := b.row(f.key)
	r := &b.rows[n]
	vs := b.versionsOf(r)
	b.Messages++
	f.row = int32(n)
	if !vs.lives() {
		f.putKey(b, r, c)
	}
	if made {
		f.inherit(b, r)
	}
	if f.table.HasConstraints {
		f.log(b, n, c, at)
	}
	if c.Op == Ensure {
		vs.ensure(r)
		return
	}
	if c.Op.ends() {
		b.end(f.opt.Scope, r, f.version, f.table.Columns)
	}
	f.takes = b.versionAt(vs.takes)
	if c.Op == Delete || b.outdated(f.opt.Scope, vs, f.version) {
		return
	}
	v := b.putVersion(f.version)
	newest := b.revive(vs, v)
	b.wide(&vs.cells, int32(width-1), width)
	for i, h := range f.hits {
		if fd := &f.fields[h]; f.sets(fd, c.Fields[i].Kind) && (newest || !b.older(f.version, vs.cells[fd.col])) {
			vs.cells[fd.col] = v
			cell := b.cell(r, fd.col, width)
			*cell = b.arena.set(*cell, c.Fields[i].Value)
		}
	}
	vs.mark(r)
}

// outdated reports whether a message of version v comes too late to do anything to its row.
func (b *Batch) outdated(scope Scope, vs *versions, v []byte) bool {
	if scope == RowScope {
		return b.older(v, vs.live)
	}
	return b.older(v, vs.tomb)
}

// end has a delete of version v, of a row or of one that it belongs to, take what is not newer of the
// row.
func (b *Batch) end(scope Scope, r *Row, v []byte, columns []schema.Column) {
	vs := b.versionsOf(r)
	if !b.older(v, vs.takes) {
		vs.takes = b.putVersion(v)
	}
	if !b.outdated(scope, vs, v) {
		b.remove(scope, r, b.putVersion(v), columns)
		vs.mark(r)
	}
}

// remove has a delete of version v take a row's values.
func (b *Batch) remove(scope Scope, r *Row, v ref, columns []schema.Column) {
	vs, text := b.versionsOf(r), b.arena.get(v)
	if scope == RowScope {
		b.removeRow(r, vs, v, columns)
	} else {
		b.removeColumns(r, vs, v, columns)
	}
	if !b.older(text, vs.tomb) {
		vs.tomb = v
	}
	vs.kept = false
}

// ensure has a row exist that another one needs.
func (vs *versions) ensure(r *Row) {
	vs.ensured, vs.kept = true, true
	vs.mark(r)
}

// revive has a message of version v set columns, and reports whether none of the row is
// newer.
func (b *Batch) revive(vs *versions, v ref) (newest bool) {
	if newest = !b.older(b.arena.get(v), vs.live); newest {
		vs.live = v
	}
	return newest
}

// mark has a row know what its versions make of it.
func (vs *versions) mark(r *Row) {
	r.Deleted, r.Replaces = !vs.lives(), vs.ended != 0
}

// lives reports whether a message of the batch has the row exist.
func (vs *versions) lives() bool { return vs.live != 0 || vs.kept }

// CheckVersion reports why a table cannot be kept by the options' version.
func CheckVersion(t *schema.Table, o Options) error {
	if o.Version == "" || o.Scope != RowScope || !t.Exists {
		return nil
	}
	at := o.Limits.Find(t, o.Version, 0)
	switch {
	case at < 0 && (o.Columns == AddColumns || o.Columns == "" && t.Made):
		return nil
	case at < 0:
		return fmt.Errorf("table %q has no column %q, which a version of the whole row is kept in: add it, or leave --version-scope row out", t.Name, o.Version)
	}
	c := &t.Columns[at]
	switch {
	case c.Generated:
		return fmt.Errorf("the column %q of table %q is computed by the database: a version of the whole row is kept in a column that weir writes", c.Name, t.Name)
	case c.Type == schema.Real && c.Size == 4, c.Type == schema.Number && strings.Contains(c.Decl, "("):
		return fmt.Errorf("the column %q of table %q is %s, which rounds: a version of the whole row is kept in a bigint, a numeric without a precision, or text", c.Name, t.Name, c.Decl)
	}
	switch c.Type {
	case schema.Int, schema.Real, schema.Number, schema.Text, schema.Any:
		return nil
	default:
		return fmt.Errorf("the column %q of table %q is %s, which the database writes otherwise than the feed: a version of the whole row is kept as a number or text", c.Name, t.Name, c.Decl)
	}
}
