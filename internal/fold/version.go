package fold

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
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
	cells []ref // by column, as the row's cells
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

// older reports whether version v is before the one at r; what is not there is
// before all.
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
	if made {
		f.putKey(b, r, c)
	}
	if f.table.HasConstraints {
		f.log(b, n, c, at)
	}
	row := f.opt.Scope == RowScope
	if b.outdated(vs, f.version, row) {
		return
	}
	v := b.putVersion(f.version)
	if c.Op != Upsert {
		b.bury(r, vs, v, row, f.table.Columns)
	}
	if c.Op != Delete {
		newest := b.revive(vs, v)
		for i, h := range f.hits {
			if fd := &f.fields[h]; f.sets(fd, c.Fields[i].Kind) && b.wins(vs, fd.col, v, newest, width) {
				cell := b.cell(r, fd.col, width)
				*cell = b.arena.set(*cell, c.Fields[i].Value)
			}
		}
	}
	vs.mark(r)
}

// outdated reports whether a message of version v comes too late to do anything to its
// row; row tells that the row has one version.
func (b *Batch) outdated(vs *versions, v []byte, row bool) bool {
	if row {
		return b.older(v, vs.live)
	}
	return b.older(v, vs.tomb)
}

// bury has a delete of version v take a row's values. Those of columns with versions of
// their own leave their default behind, for the database may have a row that lives on by
// newer messages.
func (b *Batch) bury(r *Row, vs *versions, v ref, row bool, columns []schema.Column) {
	text := b.arena.get(v)
	for i := range r.cells {
		switch {
		case columns[i].Key || r.cells[i] == 0:
		case row:
			r.cells[i], vs.cells[i] = 0, 0
		case !b.older(text, vs.cells[i]):
			r.cells[i] = b.late(nil)
		}
	}
	if row || !b.older(text, vs.live) {
		vs.live, vs.ended = 0, v
	}
	if !b.older(text, vs.tomb) {
		vs.tomb = v
	}
}

// revive has a message of version v set columns, and reports whether none of the row is
// newer.
func (b *Batch) revive(vs *versions, v ref) (newest bool) {
	if newest = !b.older(b.arena.get(v), vs.live); newest {
		vs.live = v
	}
	return newest
}

// wins has a message of version v set a column, if the column has no newer value.
func (b *Batch) wins(vs *versions, col int32, v ref, newest bool, width int) bool {
	c := b.wide(&vs.cells, col, width)
	if !newest && b.older(b.arena.get(v), *c) {
		return false
	}
	*c = v
	return true
}

// mark has a row know what its versions make of it.
func (vs *versions) mark(r *Row) { r.Deleted, r.Replaces = vs.live == 0, vs.ended != 0 }

// CheckVersion reports why a table cannot be kept by the options' version.
func CheckVersion(t *schema.Table, o Options) error {
	if o.Version == "" || o.Scope != RowScope || !t.Exists {
		return nil
	}
	at := t.Find(o.Version, 0)
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

// Stored is what a database has of a row.
type Stored struct {
	Exists  bool   // the row is there; it need not be looked up where State is nil
	State   []byte // kept beside it, nil where nothing is; for ColumnScope
	Version []byte // the text in its version's column, nil for NULL; for RowScope
}

// Resolved is what becomes of a row.
type Resolved struct {
	Row       Row    // what is to be written
	Unchanged bool   // there is nothing to write
	State     []byte // what is to be kept beside the row from now on; nil where that is as it was
}

// A Resolver tells which values of a batch's rows are newer than what a database
// has. It is not safe for concurrent use.
type Resolver struct {
	b       Batch    // as it was, but for columns that it did not know
	names   []string // of the columns that have versions, by their number
	columns []int32  // the number of each column of the batch's table
	now     state
	cleared []int32
	initial ref // a value that is a column's default
}

// NewResolver starts to resolve the rows of a batch. names is what Names returned
// when the rows' states were last written; table is the table as the database has it.
// The batch stays as it is: others may read it meanwhile.
func NewResolver(b *Batch, names []string, table *schema.Table) *Resolver {
	v := &Resolver{b: *b, names: slices.Clone(names)}
	v.b.Table = b.Table.Clone()
	number := map[string]int32{}
	for i, name := range v.names {
		number[table.FoldName(name)] = int32(i)
		if at := table.Find(name, i); at >= 0 && v.b.Table.Find(name, i) < 0 {
			v.b.Table.Columns = append(v.b.Table.Columns, table.Columns[at])
		}
	}
	for i := range v.b.Table.Columns {
		name := v.b.Table.Columns[i].Name
		n, known := number[table.FoldName(name)]
		if !known {
			n = int32(len(v.names))
			v.names = append(v.names, name)
		}
		v.columns = append(v.columns, n)
	}
	return v
}

// Names returns the names of all columns that have versions. They are to be kept
// with the states.
func (v *Resolver) Names() []string { return v.names }

// Batch returns the batch that the resolved rows are of: the one that was given, and
// those columns of the table that have versions and that it did not know.
func (v *Resolver) Batch() *Batch { return &v.b }

// Resolve tells what becomes of a row of the batch. The row's memory is the batch's
// and, like the state's, stays good when others are resolved.
func (v *Resolver) Resolve(r *Row, was Stored) (Resolved, error) {
	vs := &v.b.versions[r.versions-1]
	out := Row{Key: r.Key, hash: r.hash, cells: r.cells, versions: r.versions}
	if v.b.Scope == RowScope {
		return v.row(out, vs, was), nil
	}
	return v.column(out, vs, was)
}

// row resolves a row whose version is that of its newest message.
func (v *Resolver) row(out Row, vs *versions, was Stored) Resolved {
	b := &v.b
	if !was.Exists || was.Version == nil || vs.tomb != 0 && !feed.Older(b.arena.get(vs.tomb), was.Version) {
		out.Deleted, out.Replaces = vs.live == 0, vs.tomb != 0
		return Resolved{Row: out, Unchanged: out.Deleted && !was.Exists}
	}
	some := v.drop(&out, vs, func(_ int, version []byte) bool { return feed.Older(version, was.Version) })
	return Resolved{Row: out, Unchanged: !some}
}

// drop takes the values out of a row whose versions are too old, and reports
// whether any is left.
func (v *Resolver) drop(out *Row, vs *versions, old func(column int, version []byte) bool) (some bool) {
	own := false
	for c, ver := range vs.cells {
		if ver == 0 {
			continue
		}
		if !old(c, v.b.arena.get(ver)) {
			some = true
			continue
		}
		if !own {
			out.cells, own = slices.Clone(out.cells), true
		}
		out.cells[c] = 0
	}
	return some
}

// column resolves a row each of whose columns has a version.
func (v *Resolver) column(out Row, vs *versions, was Stored) (res Resolved, err error) {
	b, now := &v.b, &v.now
	if err := now.decode(was.State, len(v.names)); err != nil {
		return res, err
	}
	if !was.Exists { // by whatever hand it was removed: nothing of it is left that could be newer
		now.live = nil
		clear(now.columns)
	}
	v.cleared = v.cleared[:0]
	buried := now.tomb
	out.Replaces = vs.ended != 0 && !b.outlived(vs.ended, now.tomb) && !b.outlived(vs.ended, now.live)
	if vs.tomb != 0 && !b.outlived(vs.tomb, now.tomb) {
		now.tomb, buried = b.arena.get(vs.tomb), nil // the batch's messages are those that outlived it
		for n, version := range now.columns {
			if version != nil && !feed.Older(now.tomb, version) {
				now.columns[n] = nil
				v.cleared = append(v.cleared, int32(n))
			}
		}
		if !b.outlived(vs.tomb, now.live) {
			now.live = nil
		}
	}
	if vs.live != 0 {
		if live := b.arena.get(vs.live); (buried == nil || !feed.Older(live, buried)) && (now.live == nil || !feed.Older(live, now.live)) {
			now.live = live
		}
	}
	some := v.drop(&out, vs, func(c int, version []byte) bool {
		n := v.columns[c]
		if buried != nil && feed.Older(version, buried) || now.columns[n] != nil && feed.Older(version, now.columns[n]) {
			return true
		}
		if now.columns[n] = version; b.Initial(&out, c) {
			now.columns[n] = nil // a delete took it
		}
		return false
	})
	if !out.Replaces && v.clear(&out) {
		some = true
	}
	out.Deleted = now.live == nil
	unchanged := !some
	switch {
	case was.State == nil: // nobody looked whether it exists
		unchanged = false
	case !was.Exists:
		unchanged = out.Deleted
	case out.Replaces:
		unchanged = false
	}
	state := now.encode()
	if bytes.Equal(state, was.State) {
		state = nil
	}
	return Resolved{Row: out, Unchanged: unchanged, State: state}, nil
}

// outlived reports whether a delete's version is older than another one, if there is one.
func (b *Batch) outlived(ended ref, version []byte) bool {
	return version != nil && feed.Older(b.arena.get(ended), version)
}

// clear gives the columns their default whose values a delete took from a row that lives
// on, and reports whether there are any.
func (v *Resolver) clear(out *Row) (some bool) {
	for _, n := range v.cleared {
		c := slices.Index(v.columns, n)
		if v.now.columns[n] != nil || c < 0 {
			continue
		}
		if v.initial == 0 {
			v.initial, v.b.marks = v.b.arena.put([]byte{initial}), true
		}
		if !some {
			out.cells = append(slices.Clone(out.cells), make([]ref, max(0, len(v.columns)-len(out.cells)))...)
		}
		out.cells[c], some = v.initial, true
	}
	return some
}

// state is what a database keeps beside a row: the newest message that the row
// lives by, the newest delete, and each column's version. nil is none.
//
// It is written as the number of versions and each with its length, in the order in
// which the rest names them; the numbers, from 1, of that of the row and of the
// delete, or 0; and the numbers of the columns', each behind how many columns in
// succession have it.
type state struct {
	live, tomb []byte
	columns    [][]byte

	texts [][]byte
	coded []uint64
}

var errState = errors.New("the versions that are kept beside a row in weir_versions are damaged")

// decode reads a state for so many columns. What it holds points into raw.
func (s *state) decode(raw []byte, columns int) error {
	s.live, s.tomb, s.columns = nil, nil, slices.Grow(s.columns[:0], columns)[:columns]
	clear(s.columns)
	if len(raw) == 0 {
		return nil
	}
	ok := true
	next := func() int {
		n, size := binary.Uvarint(raw)
		if size <= 0 || n > 1<<20 {
			ok = false
			return 0
		}
		raw = raw[size:]
		return int(n)
	}
	s.texts = append(s.texts[:0], nil)
	for n := next(); n > 0 && ok; n-- {
		size := next()
		if size == 0 || size > len(raw) {
			return errState
		}
		s.texts = append(s.texts, raw[:size:size])
		raw = raw[size:]
	}
	text := func() []byte {
		n := next()
		if n >= len(s.texts) {
			ok = false
			return nil
		}
		return s.texts[n]
	}
	s.live, s.tomb = text(), text()
	for at := 0; len(raw) > 0 && ok; {
		n, version := next(), text()
		if n == 0 || n > columns-at {
			return errState
		}
		for ; n > 0; n-- {
			s.columns[at] = version
			at++
		}
	}
	if !ok {
		return errState
	}
	return nil
}

// encode writes the state.
func (s *state) encode() []byte {
	s.texts, s.coded = append(s.texts[:0], nil), s.coded[:0]
	size := 0
	number := func(version []byte) uint64 {
		if version == nil {
			return 0
		}
		for i := len(s.texts) - 1; i > 0; i-- {
			if bytes.Equal(s.texts[i], version) {
				return uint64(i)
			}
		}
		s.texts = append(s.texts, version)
		size += len(version) + 2
		return uint64(len(s.texts) - 1)
	}
	s.coded = append(s.coded, number(s.live), number(s.tomb))
	for at := 0; at < len(s.columns); {
		n, of := 1, number(s.columns[at])
		for at+n < len(s.columns) && bytes.Equal(s.columns[at+n], s.columns[at]) {
			n++
		}
		if at += n; at < len(s.columns) || of != 0 {
			s.coded = append(s.coded, uint64(n), of)
		}
	}
	out := make([]byte, 0, size+3*len(s.coded)+2)
	out = binary.AppendUvarint(out, uint64(len(s.texts)-1))
	for _, t := range s.texts[1:] {
		out = append(binary.AppendUvarint(out, uint64(len(t))), t...)
	}
	for _, n := range s.coded {
		out = binary.AppendUvarint(out, n)
	}
	return out
}
