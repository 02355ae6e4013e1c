package envelope

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/paths"
)

// A Kind is what a message is about.
type Kind uint8

// What it is about.
const (
	OfRows    Kind = iota // it changes rows, or removes all of a table: see [Decoder.Change]
	Tombstone             // a key without a row: the row of that key is removed
	Ignored
	Warned    // it is ignored, and the user is to be told why
	Resumes   // it has a value from which the source resumes
	Describes // rows to come of its table
)

// A Message is what a line says before its rows are looked at.
type Message struct {
	Kind    Kind
	Table   []byte     // its name in the stream; "" where the envelope has none
	Warning string     // why a message that is Warned is ignored
	Resume  []byte     // of one that Resumes, as JSON; nil: null
	Schema  []byte     // of one that Describes: a JSON Schema
	Types   *RowSchema // from Kafka Connect, sent with the message; nil: none
}

// A Change is what a message does to its rows.
type Change struct {
	Op      Op
	Inserts bool       // the row is new: nothing else has the values that it leaves out
	Version feed.Field // of the message; the zero one: it has none
}

// An Op is what becomes of a row.
type Op uint8

// What becomes of it.
const (
	Update   Op = iota
	Replace     // what the row lacks is NULL
	Delete      // the row has its key at least
	Truncate    // there are no rows: the table's rows are removed
)

// A Row is one row of a message.
type Row struct {
	Value  []byte // an object; it includes the message's key fields
	Former []byte // the row before the change; fields that the message lacks there are those of Value; nil: unknown
	Index  int    // among the rows of the message
}

// A Decoder reads the messages of one stream. What it returns is good until the next line.
type Decoder struct {
	*Compiled
	read    *paths.Reader
	line    *feed.Line
	name    []byte
	bytes   []byte // of values that no line has
	numbers []uint64
	schemas connectSchemas
}

// NewDecoder returns a decoder whose messages the reader's paths read.
func (c *Compiled) NewDecoder(read *paths.Reader) *Decoder { return &Decoder{Compiled: c, read: read} }

// Skips reports whether a line is skipped: it is a null record, or a tombstone and tombstones are not applied.
func (c *Compiled) Skips(l *feed.Line, tombstones bool) bool {
	return l.Null || l.Deletes && !tombstones
}

// Decode points the reader at the message of a line and classifies the message. An error ends the run.
func (d *Decoder) Decode(l *feed.Line) (m Message, err error) {
	d.line, d.bytes, d.name = l, d.bytes[:0], d.name[:0]
	isNull := false
	m.Types, isNull = d.unwrap(l)
	if l.Deletes {
		m.Kind = Tombstone
		return m, nil
	}
	switch {
	case isNull || d.read.Matches(d.ignore):
		m.Kind = Ignored
		return m, nil
	case d.read.Matches(d.warns):
		of, is := d.decides(d.warns)
		m.Kind, m.Warning = Warned, fmt.Sprintf("messages in which %s is %s are ignored: weir does not act on them (the envelope's warn_when; see docs/envelopes.md)", of, is)
		return m, nil
	}
	if v := d.read.Get(d.resume); v != nil {
		m.Kind = Resumes
		if v.Kind != feed.Null {
			m.Resume = v.Value
		}
		return m, nil
	}
	if d.read.Matches(d.fails) {
		of, is := d.decides(d.fails)
		return m, fmt.Errorf("the message cannot be applied: %s is %s (the envelope's fail_when: another preset may fit the stream%s, or other keys; docs/envelopes.md)", of, is, suchAs(l.Text))
	}
	m.Table = d.tableName()
	if v := d.read.Get(d.schema); v != nil {
		m.Kind, m.Schema = Describes, v.Value
	}
	return m, nil
}

// unwrap turns the paths to the message of a line, and returns what its schema says. isNull is true for a line with nothing
// but a null message and its schema, as some converters write a record without a value.
func (d *Decoder) unwrap(l *feed.Line) (types *RowSchema, isNull bool) {
	if d.outer > 0 {
		d.read.BeginLine(d.outer, l)
		v := d.read.Get(d.inner)
		if v != nil && v.Kind == feed.JSON && v.Value[0] == '{' && (d.connect.IsNowhere() || d.wraps(l) || d.hasSchema()) {
			d.read.Begin(0, v.Value, feed.JSON)
			return d.rowSchema(), false
		}
		isNull = v != nil && v.Kind == feed.Null && !d.connect.IsNowhere() && d.wraps(l)
	}
	d.read.BeginLine(0, l)
	return nil, isNull
}

// wraps reports whether a line has nothing but a schema and the message, and the key of its record.
func (d *Decoder) wraps(l *feed.Line) bool {
	for i := range l.Fields {
		if name := l.Fields[i].Name; name != d.recordKey && !d.trees.ReadsField(d.outer, name) {
			return false
		}
	}
	return true
}

// tableName is the name of the message's table: its parts that are present.
func (d *Decoder) tableName() []byte {
	for _, part := range d.table {
		v := d.read.Get(part)
		if v == nil || v.Kind == feed.Null {
			continue
		}
		if len(d.name) > 0 {
			d.name = append(d.name, '.')
		}
		d.name = append(d.name, d.read.Text(v)...)
	}
	return d.name
}

// suchAs names the preset whose tool sends such messages, if there is one.
func suchAs(message []byte) string {
	if preset := DetectPreset(message); preset != "" {
		return ", such as " + preset
	}
	return ""
}

// decides is what decides about a condition in the message, for people.
func (d *Decoder) decides(c paths.Condition) (of, is string) {
	at := d.read.Decides(c)
	if v := d.read.Get(at); v != nil {
		return d.trees.String(at), feed.Clip(v.Value)
	}
	return d.trees.String(at), "absent"
}

// Key are the names of the fields that are the key of the message's table: none if it has no key, nil if
// the message does not say.
func (d *Decoder) Key(m *Message) []string {
	if v := d.keyValue(m); v != nil {
		return keyNames(v.Value)
	}
	return nil
}

// keyValue is the value that says which key the message's table has: an object, an array, or null for none. nil: the
// message does not say.
func (d *Decoder) keyValue(m *Message) *feed.Field {
	at := d.key
	if m.Kind == Describes {
		at = d.schemaKey
	}
	v := d.read.Get(at)
	switch {
	case d.spec.RecordKeys:
		v = d.line.Field(d.recordKey)
		if v != nil && (v.Kind == feed.Null || isComposite(v) && v.Value[0] == '{') {
			return v
		}
	case isComposite(v) && (m.Kind == Describes || hasElements(v.Value)): // without a key rows may change all the same
		return v
	}
	return nil
}

// HasKey reports whether a message names no other key of its table than the fields.
func (d *Decoder) HasKey(m *Message, fields []string) bool {
	v := d.keyValue(m)
	if v == nil {
		return true
	}
	n := 0
	for name := range keyFields(v.Value) {
		if !slices.Contains(fields, string(name)) {
			return false
		}
		n++
	}
	return n == 0 || n == len(fields)
}

// Change returns what a message that is [OfRows] does to them. An error rejects it.
func (d *Decoder) Change() (c Change, err *feed.Error) {
	if d.read.Matches(d.truncates) {
		c.Op = Truncate
		return c, nil
	}
	if c.Version, err = d.version(); err != nil {
		return c, err
	}
	switch {
	case d.read.Matches(d.deletes):
		c.Op = Delete
		return c, nil
	case d.read.Matches(d.replaces):
		c.Op = Replace
	}
	c.Inserts = d.read.Matches(d.inserts)
	if v := d.read.Get(d.partial); c.Op != Replace && isComposite(v) && hasElements(v.Value) {
		return c, feed.Errorf(feed.BadValue, "the message changes parts of values (%s), and weir sets whole columns: have the messages contain the whole row", d.spec.Partial)
	}
	if !d.read.Holds(d.writes) {
		of, is := d.decides(d.writes)
		where := "write_when"
		if d.spec.Preset != "" {
			where += " of the envelope " + d.spec.Preset
		}
		return c, feed.Errorf(feed.BadValue, "unknown operation: %s is %s (%s)", of, is, where)
	}
	return c, nil
}

// NeedsKey reports whether a message is about a row that exists, which only its key finds.
func (d *Decoder) NeedsKey(c *Change) bool {
	return c.Op == Delete || c.Op != Truncate && len(d.inserts) > 0 && !c.Inserts
}

// Rows steps through the rows of a message.
type Rows struct {
	d          *Decoder
	change     Change
	rows, olds feed.Walker // of several
	max        int
	next       int // the index of the next row
}

// Rows returns the rows of a message whose change is c, at most max.
func (d *Decoder) Rows(c *Change, max int) (r Rows, err *feed.Error) {
	r = Rows{d: d, change: *c, max: max}
	if d.each.IsNowhere() {
		return r, nil
	}
	v, former := d.read.Get(d.each), d.read.Get(d.old)
	if !isComposite(v) || v.Value[0] != '[' {
		return r, feed.Errorf(feed.BadValue, "%s is no array, which has the rows", d.spec.Each)
	}
	r.rows = feed.Walk(v.Value)
	r.rows.Next()
	if isComposite(former) && former.Value[0] == '[' {
		r.olds = feed.Walk(former.Value)
		r.olds.Next()
	}
	return r, nil
}

// Next returns the next row, and has the paths read it. ok is false where there is none.
func (r *Rows) Next() (row Row, ok bool, err *feed.Error) {
	d := r.d
	if d.each.IsNowhere() {
		if r.next > 0 {
			return row, false, nil
		}
		row, err = d.row(&r.change, d.onlyRow(), d.read.Get(d.old), 0)
	} else {
		if !r.rows.Next() {
			return row, false, nil
		}
		if r.next == r.max {
			return row, false, feed.Errorf(feed.BadValue, "%s has more than %d elements (max_each)", d.spec.Each, r.max)
		}
		var old *feed.Field
		value := feed.Field{Kind: r.rows.Kind}
		value.Value = r.rows.Raw()
		if r.olds.Next() {
			old = &feed.Field{Kind: r.olds.Kind}
			old.Value = r.olds.Raw()
		}
		row, err = d.row(&r.change, &value, old, r.next)
	}
	if r.next++; err == nil {
		d.BeginRow(row.Value, row.Index)
	}
	return row, err == nil, err
}

// RowFields are the names of the fields of the first row of a message whose change is c.
func (d *Decoder) RowFields(c *Change) []string {
	rows, err := d.Rows(c, 1)
	if err != nil {
		return nil
	}
	if row, ok, err := rows.Next(); ok && err == nil {
		return keyNames(row.Value)
	}
	return nil
}

// onlyRow is the first of the places of a row that has one, or else a null.
func (d *Decoder) onlyRow() (row *feed.Field) {
	for _, at := range d.rows {
		if v := d.read.Get(at); row == nil || row.Kind == feed.Null {
			row = v
		}
	}
	return row
}

// BeginRow points the paths of rows at one.
func (d *Decoder) BeginRow(row []byte, index int) {
	d.read.BeginElement(d.rowTree, row, feed.JSON, paths.Element{Index: index})
}

// TombstoneRow is the row that a tombstone removes: a line that has the key. The paths read it then.
func (d *Decoder) TombstoneRow(l *feed.Line) Row {
	row := Row{Value: bytes.TrimSpace(l.Text)}
	d.BeginRow(row.Value, 0)
	return row
}

// isComposite reports whether there is a value that is an object or an array.
func isComposite(v *feed.Field) bool { return v != nil && v.Kind == feed.JSON }

// hasElements reports whether an array, or object, is not empty.
func hasElements(value []byte) bool {
	w := feed.Walk(value)
	w.Next() // into it
	return w.Next()
}
