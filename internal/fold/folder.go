package fold

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/schema"
)

// A Folder folds lines into batches for one table. It is not safe for
// concurrent use.
type Folder struct {
	opt    Options
	table  schema.Table
	added  int  // columns of the table that weir made
	theirs bool // the table has columns that weir did not make

	names   feed.Names
	scan    *feed.Scanner // of Fold
	scanned []feed.Field
	fields  []field          // by the order in which they were first seen
	byName  map[string]int32 // index into fields
	folded  map[string]int32 // the same, where names differ in case alone
	byID    []int32          // index into fields by the number of the name, or -1
	hits    []int32          // the fields of the line at hand
	met     []bool           // by field; all false between lines
	keys    []int32          // where in the line each part of the key is
	parts   []int            // of the key, in the order of the table's columns
	key     []byte
	text    []byte
	version []byte // of the line at hand
	full    bool   // the limit on columns was reached and said
}

type field struct {
	name    string
	col     int32 // -1: ignored
	key     int32 // which part of the key, -1: none
	deletes bool
	version bool
	ignored int64
}

const (
	none      = int32(-1)
	maxFields = 10000 // past so many names, those that are ignored share one field

	otherNames = "\x00other names" // no field has a NUL in its name
)

// A NamesError ends a run: the table cannot have both names.
type NamesError struct{ First, Second string }

func (e *NamesError) Error() string {
	return fmt.Sprintf("the feed has the fields %q and %q, which are one column name to the database: rename one in the feed", e.First, e.Second)
}

// NewFolder starts a fold for a table as the database has it; where it does not
// exist it needs only its name.
func NewFolder(t schema.Table, o Options) *Folder {
	f := &Folder{opt: o, table: t.Clone(), byName: map[string]int32{}, folded: map[string]int32{}, keys: make([]int32, len(o.Key))}
	f.scan = f.NewScanner()
	for i := range f.table.Columns {
		c := &f.table.Columns[i]
		f.theirs = f.theirs || !c.Own
		if (c.Own || c.Held != "") && !c.Key {
			f.added++
		}
	}
	if !t.Exists {
		f.table.Made = true
		f.table.Key = f.table.Key[:0]
		for i, k := range o.Key {
			f.table.Columns = append(f.table.Columns, schema.New(k, true))
			f.table.Key = append(f.table.Key, i)
		}
	}
	for part := range f.table.Key {
		f.parts = append(f.parts, part)
	}
	slices.SortFunc(f.parts, func(a, b int) int { return f.table.Key[a] - f.table.Key[b] })
	return f
}

var errFull = fmt.Errorf("the rows of one batch take more than %d GiB, as much as it can hold: verify a smaller table", maxArena>>30)

// Table returns the table as the lines so far need it.
func (f *Folder) Table() schema.Table { return f.table.Clone() }

// Seal gives the batch the table that its rows need; the batch is then ready to
// be written.
func (f *Folder) Seal(b *Batch) {
	b.Table, b.FillOnly = f.table.Clone(), f.opt.FillOnly
	if f.opt.Version != "" {
		b.Scope, b.Version = f.opt.Scope, f.table.Find(f.opt.Version, 0)
	}
	if b.Rows() == 0 {
		return // rejects alone make no table
	}
	for i := range f.table.Columns {
		if c := &f.table.Columns[i]; f.table.Untyped || c.Type != schema.Any {
			c.New = false
		} // else it waits for a value to have a type
	}
	f.table.Exists = true
}

// Ignored returns how many values each field had that found no column.
func (f *Folder) Ignored() map[string]int64 {
	m := map[string]int64{}
	for i := range f.fields {
		if n := f.fields[i].ignored; n > 0 {
			m[strings.TrimPrefix(f.fields[i].name, "\x00")] = n
		}
	}
	return m
}

// A Line is a line of a feed as a scanner left it.
type Line struct {
	Text   []byte // without its newline
	Fields []feed.Field
	Err    error // of the scan
	Blank  bool  // it holds nothing but white space, and is to be passed over
}

// Scan makes l hold the line text, whose fields it appends to fields.
func (l *Line) Scan(s *feed.Scanner, fields []feed.Field, text []byte) []feed.Field {
	all, err := s.Append(fields, text)
	if *l = (Line{Text: text, Err: err}); err != nil {
		l.Blank = len(bytes.TrimLeft(text, " \t\r\n")) == 0
		return fields
	}
	l.Fields = all[len(fields):]
	return all
}

// Get returns the text of a field, which may point into the line; ok is false where
// it is absent, null, an object or an array.
func (l *Line) Get(name string) (text []byte, ok bool) {
	for i := len(l.Fields) - 1; i >= 0; i-- {
		f := &l.Fields[i]
		if n := f.Name(l.Text); string(n) != name && (!f.Escaped || string(feed.AppendUnquoted(nil, n)) != name) {
			continue
		}
		if f.Kind == feed.Null || f.Kind == feed.JSON {
			return nil, false
		}
		return feed.Text(nil, f.Value(l.Text), f.Kind), true
	}
	return nil, false
}

// NewScanner returns a scanner for the lines that are given to the folder. It may
// be used while the folder is.
func (f *Folder) NewScanner() *feed.Scanner { return feed.NewScanner(&f.names) }

// Fold merges a line, without its newline, into the batch. An error of type
// [*feed.Error] means that the line is no message for this table and that the
// batch is as it was; any other error ends the run.
func (f *Folder) Fold(b *Batch, text []byte, at Place) error {
	var l Line
	f.scanned = l.Scan(f.scan, f.scanned[:0], text)
	return f.FoldLine(b, &l, at)
}

// FoldLine is [Folder.Fold] of a line that a scanner of the folder's has scanned.
func (f *Folder) FoldLine(b *Batch, l *Line, at Place) error {
	switch {
	case l.Err != nil:
		return l.Err
	case b.arena.bytes() > maxArena:
		return errFull
	}
	known, columns := len(f.fields), len(f.table.Columns)
	deletes, err := f.admit(l)
	if (err != nil || deletes) && len(f.fields) > known {
		// What the line alone brought leaves with it: a line without values
		// makes no column.
		f.forget(known, columns)
	}
	if err != nil {
		return err
	}
	if f.opt.Version != "" {
		f.mergeVersioned(b, l.Fields, l.Text, at, deletes)
	} else {
		f.merge(b, l.Fields, l.Text, at, deletes)
	}
	return nil
}

var escapedNUL = []byte(`\u0000`)

// hasNUL reports whether a string or name in a value holds the character NUL, which JSON can
// only write as an escape.
func (f *Folder) hasNUL(value []byte) bool {
	w := feed.Walk(value)
	for w.Next() {
		f.text = feed.AppendUnquoted(f.text[:0], w.Name)
		if w.Kind == feed.String {
			f.text = feed.AppendText(f.text, w.Raw(), w.Kind)
		}
		if bytes.IndexByte(f.text, 0) >= 0 {
			return true
		}
	}
	return false
}

// admit decides whether the line at hand is a message for the table, and whether
// one that deletes. It widens columns only when nothing can reject the line any
// more.
func (f *Folder) admit(l *Line) (deletes bool, err error) {
	if err := f.resolve(l); err != nil {
		return false, err
	}
	fields, line := l.Fields, l.Text
	if err := f.checkKey(fields, line); err != nil {
		return false, err
	}
	if f.opt.Version != "" {
		if err := f.readVersion(fields, line); err != nil {
			return false, err
		}
	}
	if f.opt.DeleteField != "" {
		for i, h := range f.hits {
			if f.fields[h].deletes {
				deletes = string(feed.Text(f.text, fields[i].Value(line), fields[i].Kind)) == f.opt.DeleteValue &&
					(fields[i].Kind == feed.Null || f.opt.DeleteValue != "null")
			}
		}
	}
	if f.table.NoNUL && bytes.Contains(line, escapedNUL) {
		for i, h := range f.hits {
			if fd := &f.fields[h]; fd.col >= 0 && f.hasNUL(fields[i].Value(line)) {
				return false, feed.Errorf(feed.BadValue, "the value of %q holds a NUL, which the database's text cannot", fd.name)
			}
		}
	}
	for _, own := range [...]bool{false, true} {
		if !own && !f.theirs {
			continue
		}
		for i, h := range f.hits {
			fd := &f.fields[h]
			if fd.col < 0 || deletes && fd.key < 0 {
				continue
			}
			if c := &f.table.Columns[fd.col]; c.Own == own && !c.Holds(fields[i].Kind) {
				if err := c.Admit(fields[i].Value(line), fields[i].Kind); err != nil {
					return false, err
				}
			}
		}
	}
	f.makeKey(fields, line)
	return deletes, nil
}

// forget takes back the fields and columns past the given numbers.
func (f *Folder) forget(fields, columns int) {
	for _, fd := range f.fields[fields:] {
		delete(f.byName, fd.name)
		if fd.col >= 0 {
			delete(f.folded, f.table.FoldName(fd.name))
		}
	}
	f.added -= len(f.table.Columns) - columns
	f.fields, f.table.Columns = f.fields[:fields], f.table.Columns[:columns]
	for i, h := range f.byID {
		if int(h) >= fields {
			f.byID[i] = none
		}
	}
}

// resolve finds the field of each name, and the parts of the key. Of equal names it
// leaves the last in the line.
func (f *Folder) resolve(l *Line) error {
	fields, line := l.Fields, l.Text
	seen := uint64(0) // the last six bits of the fields' numbers
	f.hits = f.hits[:0]
	for part := range f.keys {
		f.keys[part] = none
	}
	columns := len(f.table.Columns)
	for i := range fields {
		h, id := none, fields[i].ID
		if uint(id) < uint(len(f.byID)) {
			h = f.byID[id]
		}
		if h < 0 {
			name := fields[i].Name(line)
			if fields[i].Escaped {
				f.text = feed.AppendUnquoted(f.text[:0], name)
				name = f.text
			}
			var known bool
			if h, known = f.byName[string(name)]; !known {
				var err error
				if h, err = f.discover(string(name)); err != nil {
					return err
				}
			}
			for id >= int32(len(f.byID)) {
				f.byID = append(f.byID, none)
			}
			if id != feed.Unnumbered {
				f.byID[id] = h
			}
		}
		f.hits = append(f.hits, h)
		seen |= 1 << (h & 63)
		if part := f.fields[h].key; part >= 0 {
			f.keys[part] = int32(i)
		}
	}
	if bits.OnesCount64(seen) < len(f.hits) && !increasing(f.hits) { // else no two are the same
		f.dropRepeated(l)
	}
	if f.opt.Columns == AddColumns && f.opt.MaxColumns > 0 && len(f.hits) > f.opt.MaxColumns {
		return f.checkNew(columns)
	}
	return nil
}

// checkNew reports whether too many fields of the line at hand had no column among the
// given number of columns. Those that are ignored count each time: a run that began
// later would not know them.
func (f *Folder) checkNew(columns int) error {
	fresh := 0
	for _, h := range f.hits {
		if fd := &f.fields[h]; fd.key < 0 && (fd.col < 0 || int(fd.col) >= columns) {
			fresh++
		}
	}
	if fresh > f.opt.MaxColumns {
		return feed.Errorf(feed.BadColumn, "more than %d new fields in one line (--max-columns)", f.opt.MaxColumns)
	}
	return nil
}

func increasing(numbers []int32) bool {
	last := none
	for _, n := range numbers {
		if n <= last {
			return false
		}
		last = n
	}
	return true
}

// dropRepeated drops the fields of a line whose name comes again in it: nothing looks
// at their values, whether they fit or not.
func (f *Folder) dropRepeated(l *Line) {
	f.met = append(f.met, make([]bool, max(0, len(f.fields)-len(f.met)))...)
	from := len(f.hits)
	for i := len(f.hits) - 1; i >= 0; i-- {
		if h := f.hits[i]; !f.met[h] || f.fields[h].name == otherNames {
			from--
			f.hits[from], l.Fields[from], f.met[h] = h, l.Fields[i], true
		}
	}
	l.Fields = l.Fields[from:]
	f.hits = append(f.hits[:0], f.hits[from:]...)
	for i, h := range f.hits {
		f.met[h] = false
		if part := f.fields[h].key; part >= 0 {
			f.keys[part] = int32(i)
		}
	}
}

// discover decides what becomes of a field that was not seen before.
func (f *Folder) discover(name string) (int32, error) {
	switch {
	case name == "":
		return 0, feed.Errorf(feed.BadName, "a field has an empty name")
	case strings.IndexByte(name, 0) >= 0:
		return 0, feed.Errorf(feed.BadName, "the field name %q holds a NUL", name)
	}
	fd := field{name: name, col: none, key: none, deletes: name == f.opt.DeleteField, version: name == f.opt.Version}
	for i, k := range f.opt.Key {
		if k == name {
			fd.key = int32(i)
		}
	}
	alias := f.table.FoldName(name)
	if i := f.table.Find(name, len(f.table.Columns)); i >= 0 {
		if other, taken := f.folded[alias]; taken {
			return 0, &NamesError{f.fields[other].name, name}
		}
		if fd.col = int32(i); f.table.Columns[i].Generated {
			fd.col = none
			f.opt.Warn("the field %q is ignored: the database computes this column", name)
		}
		return f.remember(fd, alias), nil
	}
	bad := f.table.CheckName(name)
	switch {
	case f.opt.Columns == RejectColumns:
		return 0, feed.Errorf(feed.BadColumn, "the table has no column %q (--new-columns reject)", name)
	case f.opt.Columns == IgnoreColumns:
	case bad != nil:
		return 0, bad
	case f.added < f.opt.MaxColumns:
		fd.col = int32(len(f.table.Columns))
		f.table.Columns = append(f.table.Columns, schema.New(name, false))
		f.added++
	case !f.full:
		f.full = true
		f.opt.Warn("no more columns are added after %d (--max-columns); further fields, %q the first, are ignored", f.opt.MaxColumns, name)
	}
	return f.remember(fd, alias), nil
}

func (f *Folder) remember(fd field, alias string) int32 {
	if len(f.fields) >= maxFields && fd.col < 0 && fd.key < 0 && !fd.deletes && !fd.version {
		fd.name = otherNames
		if n, ok := f.byName[fd.name]; ok {
			return n
		}
	}
	n := int32(len(f.fields))
	f.fields = append(f.fields, fd)
	f.byName[fd.name] = n
	if fd.col >= 0 {
		f.folded[alias] = n
		f.table.Columns[fd.col].Exact = fd.version && f.opt.Scope == RowScope
	}
	return n
}

// checkKey reports what is wrong with the key of the line at hand.
func (f *Folder) checkKey(fields []feed.Field, line []byte) error {
	size := 0
	for part, at := range f.keys {
		name := f.opt.Key[part]
		if at < 0 {
			return feed.Errorf(feed.BadKey, "the key field %q is missing", name)
		}
		switch fd := &fields[at]; {
		case fd.Kind == feed.Null || fd.Kind == feed.JSON:
			return feed.Errorf(feed.BadKey, "the key field %q is %s", name, fd.Kind)
		case string(fd.Value(line)) == `""`:
			return feed.Errorf(feed.BadKey, "the key field %q is empty", name)
		}
		size += len(fields[at].Value(line))
	}
	if size > f.table.MaxKey && f.table.MaxKey > 0 { // its text has less than its JSON
		if size = f.keySize(fields, line); size > f.table.MaxKey {
			return feed.Errorf(feed.BadKey, "the key has %d bytes: the database can index %d", size, f.table.MaxKey)
		}
	}
	return nil
}

// keySize returns the bytes that the texts of the line's key have, however JSON spells them.
func (f *Folder) keySize(fields []feed.Field, line []byte) (n int) {
	for _, at := range f.keys {
		f.text = feed.AppendText(f.text[:0], fields[at].Value(line), fields[at].Kind)
		n += len(f.text)
	}
	return n
}

// makeKey builds the key of the line at hand. It is the same for every order of
// --key, for what is kept beside a row is found by it.
func (f *Folder) makeKey(fields []feed.Field, line []byte) {
	f.key = f.key[:0]
	for _, part := range f.parts {
		from, at := len(f.key), f.keys[part]
		c := &f.table.Columns[f.table.Key[part]]
		f.key = c.AppendKey(f.key, fields[at].Value(line), fields[at].Kind)
		if len(f.keys) > 1 {
			// A part ends with its length, so that no two keys run together.
			f.key = binary.BigEndian.AppendUint32(f.key, uint32(len(f.key)-from))
		}
	}
}

// merge puts an admitted line into its row.
func (f *Folder) merge(b *Batch, fields []feed.Field, line []byte, at Place, deletes bool) {
	width := len(f.table.Columns)
	n, made := b.row(f.key)
	r := &b.rows[n]
	b.Messages++
	switch {
	case deletes:
		clear(r.cells)
		r.Replaces, r.Deleted = true, true
	case r.Deleted:
		r.Deleted = false
	}
	if made || deletes {
		for part, i := range f.keys {
			c := b.cell(r, int32(f.table.Key[part]), width)
			*c = b.arena.put(fields[i].Value(line))
		}
	}
	if !deletes {
		for i, h := range f.hits {
			fd := &f.fields[h]
			if fd.col < 0 {
				fd.ignored++
				continue
			}
			null := fields[i].Kind == feed.Null
			if fd.key >= 0 || null && (f.opt.KeepNull || f.opt.FillOnly) {
				continue
			}
			if c := b.cell(r, fd.col, width); !f.opt.FillOnly {
				*c = b.arena.set(*c, fields[i].Value(line))
			} else if *c == 0 {
				*c = f.fill(b, fd, fields[i].Value(line), made)
			}
		}
	}
	if f.table.Judged {
		f.log(b, n, fields, line, at, deletes)
	}
}

// fill puts a value where its row has none; first tells that it is of the row's first
// message. A later one finds the column's default.
func (f *Folder) fill(b *Batch, fd *field, value []byte, first bool) ref {
	if first || f.table.Columns[fd.col].Default == "" {
		return b.arena.put(value)
	}
	return b.late(value)
}

// log keeps the message as it came.
func (f *Folder) log(b *Batch, row int, fields []feed.Field, line []byte, at Place, deletes bool) {
	m := logged{Place: at, row: int32(row), delete: deletes, text: b.arena.put(line[:min(len(line), maxRejectText)])}
	if f.opt.Version != "" {
		m.version = b.putVersion(f.version)
	}
	for part, i := range f.keys {
		m.cells = append(m.cells, cell{int32(f.table.Key[part]), b.arena.put(fields[i].Value(line))})
	}
	for i, h := range f.hits {
		if deletes {
			break
		}
		fd := &f.fields[h]
		null := fields[i].Kind == feed.Null
		if fd.col < 0 || fd.key >= 0 || null && (f.opt.KeepNull || f.opt.FillOnly) {
			continue
		}
		m.cells = append(m.cells, cell{fd.col, b.arena.put(fields[i].Value(line))})
	}
	b.extra += 8 * len(m.cells)
	b.log = append(b.log, m)
}
