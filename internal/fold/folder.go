package fold

import (
	"bytes"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold/merge"
	"github.com/weirsync/weir/internal/fold/schema"
)

// A Folder folds changes into batches for one table. It is not safe for concurrent use.
type Folder struct {
	opt         Options
	table       schema.Table
	parts       []int // the parts of the key, in the order of the table's columns
	userColumns bool  // the table has columns that weir did not make
	added       addedColumns
	rules       rules
	fields      fieldSet
	declared    *Declared // of the last change that has types

	now current

	nested     *nested
	references references
}

// addedColumns counts the table's columns that weir added.
type addedColumns struct {
	n          int
	reachedMax bool // a field was ignored because of the maximum, and that was logged
}

// current is what a folder knows about the change that it checked last.
type current struct {
	before   extent  // what was known about the table before
	hits     []int32 // its fields: indexes into fieldSet.all
	mayWiden bool    // some field may have to widen its column
	keys     []int32 // index of each part of the key among its fields
	key      []byte
	version  []byte
	message  message // what it changes in its row
	row      int32   // the number of its row in the batch
	index    int     // index of the change in its message

	repeats []bool // by field, for dropRepeated; all false between changes
	text    []byte // buffer for the text of a value
}

// NewFolder returns a folder for a table of the database. If the table does not exist, t has its name, and the
// columns that it must have from the start. The folders of several tables may share names.
func NewFolder(names *feed.Names, t schema.Table, o Options) *Folder {
	f := &Folder{opt: o, table: t.Clone(), fields: fieldSet{names: names, byName: map[string]int32{}}, now: current{keys: make([]int32, len(o.Key))}}
	for i := range f.table.Columns {
		c := &f.table.Columns[i]
		f.userColumns = f.userColumns || !c.Own && c.Stamp == schema.NoStamp
		if (c.Own || c.Held != "") && !c.Key {
			f.added.n++
		}
	}
	if !t.Exists {
		f.table.Made = true
		f.table.Key = make([]int, 0, len(o.Key)) // others may read t's key
		for i, k := range o.Key {
			at := o.Limits.Find(&f.table, k, i)
			if at < 0 {
				at = len(f.table.Columns)
				f.table.Columns = append(f.table.Columns, schema.New(k, true))
			}
			f.table.Key = append(f.table.Key, at)
		}
	}
	for i := range f.table.Columns {
		o.setFunction(&f.table.Columns[i])
	}
	f.table.HasConstraints = MayReject(&f.table, &o)
	f.parts = partsOf(&f.table)
	f.rules = rules{table: &f.table, merges: o.FillOnly || len(o.Merge) > 0, parent: -1}
	if o.Version != "" {
		f.rules.scope = o.Scope
	}
	return f
}

// MayReject reports whether only the database can tell if a table accepts a row. Messages for the table are then
// kept.
func MayReject(t *schema.Table, o *Options) bool {
	mayReject := func(c schema.Column) bool {
		o.setFunction(&c)
		return (c.Judged || c.MayOverflow()) && c.Stamp == schema.NoStamp
	}
	return t.HasConstraints || o.Limits.MayOverflow(t) || slices.ContainsFunc(t.Columns, mayReject)
}

var errFull = fmt.Errorf("the rows of one batch exceed its maximum of %d GiB: verify a smaller table", maxArena>>30)

// errVersionedDelete ends a run: the rest of a sum after a delete would depend on batch boundaries. See
// docs/dev/merge.md.
var errVersionedDelete = errors.New("deletes with versions cannot be applied to a table with merge functions: leave the version or the functions out")

// Table returns the table that the lines so far need.
func (f *Folder) Table() schema.Table { return f.table.Clone() }

// Seal sets the table that the batch's rows need. The batch is then ready to be written.
func (f *Folder) Seal(b *Batch) {
	sealed := f.rules
	b.Table, b.Limits, sealed.table, b.rules = f.table.Clone(), f.opt.Limits, &b.Table, &sealed
	b.Scope = sealed.scope
	if b.patches > 0 {
		for i := range b.rows.all {
			b.combine(&b.rows.all[i])
		}
	}
	if f.opt.Version != "" {
		b.Version = f.opt.Limits.Find(&f.table, f.opt.Version, 0)
	}
	if !b.Used() {
		return // rejects alone create no table
	}
	for i := range f.table.Columns {
		if c := &f.table.Columns[i]; f.opt.Limits.Untyped || c.Type != schema.Any {
			c.New = false
		} // else it stays new until a value decides its type
	}
	f.table.Exists = true
}

// TakeIgnored returns, by field, how many values were ignored since the last call because the field has no column.
// Values of outdated messages count too: often only the database knows that a message is outdated.
func (f *Folder) TakeIgnored() map[string]int64 {
	m := map[string]int64{}
	for i := range f.fields.all {
		if fd := &f.fields.all[i]; fd.ignored > 0 {
			m[strings.TrimPrefix(fd.name, "\x00")], fd.ignored = fd.ignored, 0
		}
	}
	return m
}

func (f *Folder) widen(c *Change) {
	f.eachWidening(c, func(v *feed.Field, col int32) {
		_ = f.table.Columns[col].Admit(v.Value, v.Kind) // no error: a column that weir made admits everything
	})
}

// eachWidening calls each with the values of the change for which one of weir's columns must be widened. Most fields
// have only kinds of values that they had before, so their column is not looked at: that saves a twelfth of a hot
// feed's scan and fold.
func (f *Folder) eachWidening(c *Change, each func(v *feed.Field, col int32)) {
	if !f.now.mayWiden {
		return
	}
	for i, h := range f.now.hits {
		k, fd := c.Fields[i].Kind, &f.fields.all[h]
		switch col := f.column(h, c); {
		case col != nil && col.Own && !col.Holds(k):
			each(&c.Fields[i], fd.col)
		case col != nil || fd.col < 0:
			fd.holds |= 1 << k // stays true: a column is never narrowed
		}
	}
}

// prepareRow finds or creates the row of the change that was checked last, and reports whether it created it. It also
// widens the columns, because nothing can reject the change any more.
func (f *Folder) prepareRow(b *Batch, c *Change) (made bool) {
	f.widen(c)
	f.makeKey(c.Fields)
	if c.Op == Delete {
		f.forget(f.now.before) // a delete adds no columns
	}
	b.rules = &f.rules
	b.Messages++
	if f.table.Appends() {
		f.now.row = b.appendRow()
		return true
	}
	f.now.row, made = b.row(f.now.key)
	return made
}

// merge merges the change into its row, which prepareRow has found or created.
func (f *Folder) merge(b *Batch, c *Change, made bool, from *origin) {
	f.read(c)
	if f.table.HasConstraints {
		text := c.Text
		if c.Op == Ensure {
			text = nil // another row of the same message has it
		}
		b.keep(&f.now.message, f.now.row, text[:min(len(text), MaxRejectText)], from)
	}
	r := &b.rows.all[f.now.row]
	b.merge(r, &f.now.message, made)
	r.referenced = r.referenced || c.Op == Ensure
	b.relations.deletes = b.relations.deletes || f.references.referenced && c.Op == Delete
}

// read prepares the change's message to its row, and counts the values without a column.
func (f *Folder) read(c *Change) {
	m := &f.now.message
	m.op, m.version, m.fields, m.kept, m.keys, m.values = c.Op, nil, c.Fields, nil, f.now.keys, m.values[:0]
	if f.rules.scope != "" && c.Op.versioned() {
		m.version = f.now.version
	}
	if c.Op == Delete {
		return
	}
	fields, values := c.Fields, m.values
	for i, h := range f.now.hits {
		switch fd := &f.fields.all[h]; {
		case fd.col < 0 && !fd.hasColumn:
			fd.ignored++
		case fd.col < 0: // a column that only the database writes, as a notice said
		case fd.key < 0 && (fields[i].Kind != feed.Null || f.opt.Null != KeepNull && f.table.Columns[fd.col].Merge != merge.First):
			values = append(values, cell{fd.col, int32(i)})
		}
	}
	m.values = values
}

var escapedNUL = []byte(`\u0000`)

// hasNUL reports whether a string or name in a value holds the character NUL, which JSON can write only as an escape.
func (f *Folder) hasNUL(value []byte) bool {
	w := feed.Walk(value)
	for w.Next() {
		text := feed.AppendUnquoted(f.now.text[:0], w.Name)
		if w.Kind == feed.String {
			text = feed.AppendText(text, w.Raw(), w.Kind)
		}
		f.now.text = text
		if bytes.IndexByte(text, 0) >= 0 {
			return true
		}
	}
	return false
}

// check checks whether the table accepts a change. It leaves nothing behind that forget does not remove.
func (f *Folder) check(b *Batch, c *Change) error {
	if b.arena.bytes() > maxArena {
		return errFull
	}
	if c.Declared != nil && c.Declared != f.declared {
		f.declareAll(c.Declared)
	}
	f.now.before = f.extent()
	if err := f.resolve(c); err != nil {
		return f.reject(err)
	}
	if err := f.checkKey(c.Fields); err != nil {
		return f.reject(err)
	}
	if f.table.Appends() {
		if err := f.checkAppended(c); err != nil {
			return f.reject(err)
		}
	}
	if f.opt.Version != "" && c.Op.versioned() {
		if err := f.readVersion(&c.Version); err != nil {
			return f.reject(err)
		}
		if c.Op.ends() && len(f.opt.Merge) > 0 {
			return f.reject(errVersionedDelete)
		}
	}
	if c.Op.ends() && f.nested != nil && f.nested.newer != "" {
		return f.reject(feed.Errorf(feed.BadVersion, "the delete would also delete rows of %q, which have versions: leave the version or set: merge out", f.nested.newer))
	}
	if f.opt.Limits.NoNUL && bytes.Contains(c.Text, escapedNUL) {
		for i, h := range f.now.hits {
			if fd := &f.fields.all[h]; fd.col >= 0 && f.hasNUL(c.Fields[i].Value) {
				return f.reject(feed.Errorf(feed.BadValue, "the value of %q contains a NUL, which the database cannot store in text", fd.name))
			}
		}
	}
	if f.rules.merges {
		for i, h := range f.now.hits {
			if col := f.column(h, c); col != nil {
				if err := col.AdmitMerge(c.Fields[i].Value, c.Fields[i].Kind); err != nil {
					return f.reject(err)
				}
			}
		}
	}
	if !f.userColumns {
		return nil
	}
	for i, h := range f.now.hits {
		if col := f.column(h, c); col != nil && !col.Own && !col.Holds(c.Fields[i].Kind) {
			if err := col.Admit(c.Fields[i].Value, c.Fields[i].Kind); err != nil {
				return f.reject(err)
			}
		}
	}
	return nil
}

var null = []byte("null")

func (f *Folder) reject(err error) error {
	f.forget(f.now.before)
	return err
}

// column returns the column that must admit the value of a field of the change, nil for none.
func (f *Folder) column(field int32, c *Change) *schema.Column {
	fd := &f.fields.all[field]
	if fd.col < 0 || c.Op == Delete && fd.key < 0 {
		return nil
	}
	return &f.table.Columns[fd.col]
}

// extent returns how much the folder knows about its table.
func (f *Folder) extent() extent { return extent{len(f.fields.all), len(f.table.Columns)} }

// forget removes what the folder learned about its table after an extent.
func (f *Folder) forget(to extent) {
	if len(f.fields.all) == to.fields {
		return
	}
	f.fields.forget(to.fields)
	f.added.n -= len(f.table.Columns) - to.columns
	f.table.Columns = f.table.Columns[:to.columns]
}

// resolve finds the field of each name, and the parts of the key. If a name occurs several times, only the last one
// stays in the change.
func (f *Folder) resolve(c *Change) error {
	seen, mayWiden := uint64(0), uint8(0) // the last six bits of the fields' numbers; kinds of values
	f.now.hits = f.now.hits[:0]
	for part := range f.now.keys {
		f.now.keys[part] = none
	}
	columns := len(f.table.Columns)
	fields := c.Fields
	for i := range fields {
		h, name := none, fields[i].Name
		if uint(name) < uint(len(f.fields.byNumber)) {
			h = f.fields.byNumber[name]
		}
		if h < 0 {
			var err error
			if h, err = f.find(c, name); err != nil {
				return err
			}
		}
		f.now.hits = append(f.now.hits, h)
		seen |= 1 << (h & 63)
		fd := &f.fields.all[h]
		mayWiden |= 1 << fields[i].Kind &^ fd.holds
		if fd.key >= 0 {
			f.now.keys[fd.key] = int32(i)
		}
		if fd.identifies && fields[i].Kind != feed.String {
			spellKey(c, i)
			fields = c.Fields
		}
	}
	f.now.mayWiden = mayWiden != 0
	if bits.OnesCount64(seen) < len(f.now.hits) && !increasing(f.now.hits) { // else all fields differ
		f.dropRepeated(c)
	}
	if f.fields.spellings {
		if err := f.checkSpellings(); err != nil {
			return err
		}
	}
	if f.opt.UnknownFields == AddUnknown && f.opt.MaxColumns > 0 && len(f.now.hits) > f.opt.MaxColumns {
		return f.checkNew(columns)
	}
	return nil
}

// find returns the field of a name that byNumber lacks, and adds it there.
func (f *Folder) find(c *Change, number int32) (int32, error) {
	if number < 0 {
		name := c.Unnumbered[^number]
		if h, known := f.fields.byName[string(name)]; known {
			return h, nil
		}
		return f.discover(c, string(name))
	}
	name := f.fields.names.Name(number)
	h, known := f.fields.byName[name]
	if !known {
		var err error
		if h, err = f.discover(c, name); err != nil {
			return 0, err
		}
	}
	f.fields.setNumber(number, h)
	return h, nil
}

// checkNew returns an error if the change has too many new fields. columns is how many columns the table had before it;
// a field with a later column, or none, is new. So ignored fields count every time, because a run that starts later
// would not know them.
func (f *Folder) checkNew(columns int) error {
	fresh := 0
	for _, h := range f.now.hits {
		if fd := &f.fields.all[h]; fd.key < 0 && (fd.col < 0 || int(fd.col) >= columns) {
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

// dropRepeated drops the fields of a change whose name occurs again later in it; their values are never checked. It
// moves the others to the end, so another table that shares the fields still finds the last value of each name.
func (f *Folder) dropRepeated(c *Change) {
	seen := append(f.now.repeats, make([]bool, max(0, len(f.fields.all)-len(f.now.repeats)))...)
	f.now.repeats = seen
	from := len(f.now.hits)
	for i := len(f.now.hits) - 1; i >= 0; i-- {
		if h := f.now.hits[i]; !seen[h] || f.fields.all[h].name == otherNames {
			from--
			f.now.hits[from], c.Fields[from], seen[h] = h, c.Fields[i], true
		}
	}
	c.Fields = c.Fields[from:]
	f.now.hits = append(f.now.hits[:0], f.now.hits[from:]...)
	for i, h := range f.now.hits {
		seen[h] = false
		if part := f.fields.all[h].key; part >= 0 {
			f.now.keys[part] = int32(i)
		}
	}
}

// discover decides what happens to a field that was not seen before.
func (f *Folder) discover(by *Change, name string) (int32, error) {
	switch {
	case name == "":
		return 0, feed.Errorf(feed.BadName, "a field has an empty name")
	case strings.IndexByte(name, 0) >= 0:
		return 0, feed.Errorf(feed.BadName, "the field name %q holds a NUL", name)
	}
	fd := field{name: name, col: none, key: none}
	if i := f.opt.Limits.Find(&f.table, name, len(f.table.Columns)); i >= 0 {
		if column := f.table.Columns[i].Name; column != name {
			if f.table.Made || f.table.Ruled {
				return 0, sameColumn(column, name)
			}
			f.fields.spellings = true
		}
		why := ""
		fd.key = int32(slices.Index(f.table.Key, i))
		fd.identifies = fd.key >= 0 || slices.ContainsFunc(f.table.Refs, func(r schema.Ref) bool { return slices.Contains(r.From, i) })
		switch c := &f.table.Columns[i]; {
		case c.Generated:
			why = "the database computes this column"
		case c.Stamp != schema.NoStamp:
			why = "this column holds the time of a flush"
		default:
			if err := c.CheckMerge(); err != nil {
				return 0, err
			}
		}
		if fd.col = int32(i); why != "" {
			fd.col, fd.hasColumn = none, true
			f.opt.Log.Warn(fmt.Sprintf("the field %q is ignored: %s", name, why))
		}
		return f.remember(fd), nil
	}
	bad := f.opt.Limits.CheckName(name)
	switch {
	case f.opt.UnknownFields == RejectUnknown:
		return 0, feed.Errorf(feed.BadColumn, "the table has no column %q (--unknown-fields reject)", name)
	case f.opt.UnknownFields == IgnoreUnknown:
	case bad != nil:
		return 0, bad
	case f.added.n < f.opt.MaxColumns:
		fd.col = int32(len(f.table.Columns))
		f.table.Columns = append(f.table.Columns, schema.New(name, false))
		f.opt.setFunction(&f.table.Columns[fd.col])
		if by.Declared != nil {
			if want, ok := by.Declared.Columns[name]; ok {
				f.declare(&f.table.Columns[fd.col], &want)
			}
		}
		f.added.n++
	case !f.added.reachedMax:
		f.added.reachedMax = true
		f.opt.Log.Warn(fmt.Sprintf("no more columns are added after %d (--max-columns); further fields, %q the first, are ignored", f.opt.MaxColumns, name))
	}
	return f.remember(fd), nil
}

// declareAll makes the columns hold values of the types that a change declares. The mapper has checked that they can.
func (f *Folder) declareAll(d *Declared) {
	f.declared = d
	for name, want := range d.Columns {
		if at := f.opt.Limits.Find(&f.table, name, len(f.table.Columns)); at >= 0 && !f.table.Columns[at].Generated {
			f.declare(&f.table.Columns[at], &want)
		}
	}
	for i := range f.fields.all {
		f.fields.all[i].holds = 0 // a column that values widen may now be one that they do not
	}
}

// declare makes a column hold values of a declared type.
func (f *Folder) declare(c, want *schema.Column) {
	_ = c.Declare(want)
	if want.Type == schema.Bytes && c.TakesBytes() {
		c.Type = schema.Bytes
	}
	f.userColumns = f.userColumns || !c.Own
}

// remember adds a field.
func (f *Folder) remember(fd field) int32 {
	n, isNew := f.fields.add(fd)
	if isNew && fd.col >= 0 && fd.name == f.opt.Version && f.opt.Scope == RowScope {
		f.table.Columns[fd.col].Exact = true
	}
	return n
}
