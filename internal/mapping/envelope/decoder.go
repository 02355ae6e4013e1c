package envelope

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/mapping/paths"
)

// A Kind is what a message is for.
type Kind uint8

// The kinds of messages.
const (
	OfRows    Kind = iota // changes rows or truncates a table: see [Decoder.Change]
	Tombstone             // a key without a row: delete the row with that key
	Ignored
	Warned    // ignored, with a warning to the user
	Resumes   // has a resume value for the source
	Describes // describes the future rows of its table
)

// A Message is what a line says, apart from its rows.
type Message struct {
	Kind    Kind
	Table   []byte     // the table's name in the stream; "" if the envelope has none
	Warning string     // why a message that is Warned is ignored
	Resume  []byte     // of a message that Resumes: JSON; nil for null
	Schema  []byte     // of a message that Describes: a JSON Schema
	Types   *RowSchema // from Kafka Connect, sent with the message; nil for none
}

// A Change is what a message does to its rows.
type Change struct {
	Op      Op
	Inserts bool       // the row is new, so fields that it omits have no value anywhere
	Version feed.Field // of the message; the zero value means none
}

// An Op is what happens to a row.
type Op uint8

// What happens to a row.
const (
	Update   Op = iota
	Replace     // columns that the row lacks become NULL
	Delete      // the row has at least its key
	Truncate    // there are no rows: the table is emptied
)

// A Row is one row of a message.
type Row struct {
	Value  []byte // an object; it includes the message's key fields
	Former []byte // the row before the change; fields that the message omits there have the values of Value; nil if unknown
	Index  int    // index among the rows of the message
}

// A Decoder reads the messages of one stream. Results are valid until the next line.
type Decoder struct {
	*Compiled
	read    *paths.Reader
	line    *feed.Line
	name    []byte
	bytes   []byte // backing memory of composed values
	numbers []uint64
	schemas connectSchemas
}

// NewDecoder returns a decoder that reads messages with read.
func (c *Compiled) NewDecoder(read *paths.Reader) *Decoder { return &Decoder{Compiled: c, read: read} }

// Decode makes the message of a line the reader's current value, and classifies it. An error ends the run.
func (d *Decoder) Decode(l *feed.Line) (m Message, err error) {
	d.line, d.bytes, d.name = l, d.bytes[:0], d.name[:0]
	isNull := false
	m.Types, isNull = d.unwrap(l)
	if l.Deletes {
		m.Kind = Tombstone
		return m, nil
	}
	switch {
	case isNull || d.read.Matches(d.spec.Ignore):
		m.Kind = Ignored
		return m, nil
	case d.read.Matches(d.spec.WarnWhen):
		of, is := d.decides(d.spec.WarnWhen)
		m.Kind, m.Warning = Warned, fmt.Sprintf("messages in which %s is %s are ignored: weir does not act on them (the envelope's warn_when; see docs/envelopes.md)", of, is)
		return m, nil
	}
	if v := d.read.Value(&d.spec.Resume); v != nil {
		m.Kind = Resumes
		if v.Kind != feed.Null {
			m.Resume = v.Value
		}
		return m, nil
	}
	if d.read.Matches(d.spec.FailWhen) {
		of, is := d.decides(d.spec.FailWhen)
		return m, fmt.Errorf("the message cannot be applied: %s is %s (the envelope's fail_when: another preset may fit the stream%s, or other keys; docs/envelopes.md)", of, is, presetHint(l.Text))
	}
	m.Table = d.tableName()
	if v := d.read.Value(&d.spec.Schema); v != nil {
		m.Kind, m.Schema = Describes, v.Value
	}
	return m, nil
}

// unwrap makes the message in a line the reader's current value, and returns its schema. isNull is true for a line with
// nothing but a null message and its schema, as some converters write a record without a value.
func (d *Decoder) unwrap(l *feed.Line) (types *RowSchema, isNull bool) {
	if d.outer > 0 {
		d.read.BeginLine(d.outer, l)
		v := d.read.Value(&d.spec.Unwrap)
		if v != nil && v.Kind == feed.JSON && v.Value[0] == '{' && (d.spec.ConnectSchema.Base == paths.NoBase || d.wraps(l) || d.hasSchema()) {
			d.read.Begin(0, v.Value, feed.JSON)
			return d.rowSchema(), false
		}
		isNull = v != nil && v.Kind == feed.Null && d.spec.ConnectSchema.Base != paths.NoBase && d.wraps(l)
	}
	d.read.BeginLine(0, l)
	return nil, isNull
}

// wraps reports whether a line has only a schema, the message, and the key of its record.
func (d *Decoder) wraps(l *feed.Line) bool {
	for i := range l.Fields {
		if name := l.Fields[i].Name; name != d.recordKey && !d.trees.ReadsField(d.outer, name) {
			return false
		}
	}
	return true
}

// tableName joins the parts of the table's name that are present.
func (d *Decoder) tableName() []byte {
	for i := range d.spec.Table {
		v := d.read.Value(&d.spec.Table[i])
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

// presetHint returns a hint at the preset for such messages, if there is one.
func presetHint(message []byte) string {
	if preset := DetectPreset(message); preset != "" {
		return ", such as " + preset
	}
	return ""
}

// decides returns the path and value in the message that decide a condition, for an error.
func (d *Decoder) decides(w paths.When) (of, is string) {
	p := d.read.Decides(w)
	if v := d.read.Value(p); v != nil {
		return p.String(), feed.Clip(v.Value)
	}
	return p.String(), "absent"
}

// Key returns the names of the key fields of the message's table: empty if it has no key, nil if the message does not
// say.
func (d *Decoder) Key(m *Message) []string {
	if v := d.keyValue(m); v != nil {
		return keyNames(v.Value)
	}
	return nil
}

// keyValue returns the value that describes the key of the message's table: an object, an array, or null for no key.
// It is nil if the message does not say.
func (d *Decoder) keyValue(m *Message) *feed.Field {
	at := &d.spec.Key
	if m.Kind == Describes {
		at = &d.spec.SchemaKey
	}
	v := d.read.Value(at)
	switch {
	case d.spec.RecordKeys:
		v = d.line.Field(d.recordKey)
		if v != nil && (v.Kind == feed.Null || isComposite(v) && v.Value[0] == '{') {
			return v
		}
	case isComposite(v) && (m.Kind == Describes || hasElements(v.Value)): // rows may change even if the table has no key
		return v
	}
	return nil
}

// HasKey reports whether the message names no key of its table other than fields.
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

// Change returns what a message of kind [OfRows] does to its rows. An error rejects the message.
func (d *Decoder) Change() (c Change, err *feed.Error) {
	if d.read.Matches(d.spec.TruncateWhen) {
		c.Op = Truncate
		return c, nil
	}
	if c.Version, err = d.version(); err != nil {
		return c, err
	}
	switch {
	case d.read.Matches(d.spec.DeleteWhen):
		c.Op = Delete
		return c, nil
	case d.read.Matches(d.spec.ReplaceWhen):
		c.Op = Replace
	}
	c.Inserts = d.read.Matches(d.spec.InsertWhen)
	if v := d.read.Value(&d.spec.Partial); c.Op != Replace && isComposite(v) && hasElements(v.Value) {
		return c, feed.Errorf(feed.BadValue, "the message changes parts of values (%s), and weir sets whole columns: have the messages contain the whole row", d.spec.Partial)
	}
	if !d.read.Holds(d.spec.WriteWhen) {
		of, is := d.decides(d.spec.WriteWhen)
		where := "write_when"
		if d.spec.Preset != "" {
			where += " of the envelope " + d.spec.Preset
		}
		return c, feed.Errorf(feed.BadValue, "unknown operation: %s is %s (%s)", of, is, where)
	}
	return c, nil
}

// NeedsKey reports whether a message is for an existing row, which only its key finds.
func (d *Decoder) NeedsKey(c *Change) bool {
	return c.Op == Delete || c.Op != Truncate && len(d.spec.InsertWhen) > 0 && !c.Inserts
}

// Rows steps through the rows of a message.
type Rows struct {
	d             *Decoder
	change        Change
	rows, formers feed.Walker // if there are several
	max           int
	next          int // index of the next row
}

// Rows returns the rows of a message with change c, at most max.
func (d *Decoder) Rows(c *Change, max int) (r Rows, err *feed.Error) {
	r = Rows{d: d, change: *c, max: max}
	if d.spec.Each.Base == paths.NoBase {
		return r, nil
	}
	v, former := d.read.Value(&d.spec.Each), d.read.Value(&d.spec.Old)
	if !isComposite(v) || v.Value[0] != '[' {
		return r, feed.Errorf(feed.BadValue, "%s is not an array of rows", d.spec.Each)
	}
	r.rows = feed.Walk(v.Value)
	r.rows.Next()
	if isComposite(former) && former.Value[0] == '[' {
		r.formers = feed.Walk(former.Value)
		r.formers.Next()
	}
	return r, nil
}

// Next returns the next row, and makes it the current value of the row paths. ok is false after the last row.
func (r *Rows) Next() (row Row, ok bool, err *feed.Error) {
	d := r.d
	if d.spec.Each.Base == paths.NoBase {
		if r.next > 0 {
			return row, false, nil
		}
		row, err = d.row(&r.change, d.onlyRow(), d.read.Value(&d.spec.Old), 0)
	} else {
		if !r.rows.Next() {
			return row, false, nil
		}
		if r.next == r.max {
			return row, false, feed.Errorf(feed.BadValue, "%s has more than %d elements (max_each)", d.spec.Each, r.max)
		}
		var old *feed.Field
		value := r.rows.Field()
		if r.formers.Next() {
			former := r.formers.Field()
			old = &former
		}
		row, err = d.row(&r.change, &value, old, r.next)
	}
	if r.next++; err == nil {
		d.BeginRow(row.Value, row.Index)
	}
	return row, err == nil, err
}

// RowFields returns the names of the fields of the first row of a message with change c.
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

// onlyRow returns the first value that is not null among the possible places of the row, else null or nil.
func (d *Decoder) onlyRow() (row *feed.Field) {
	for i := range d.spec.Row {
		if v := d.read.Value(&d.spec.Row[i]); row == nil || row.Kind == feed.Null {
			row = v
		}
	}
	return row
}

// BeginRow makes a row the current value of the row paths.
func (d *Decoder) BeginRow(row []byte, index int) {
	d.read.BeginElement(d.rowTree, row, feed.JSON, paths.Element{Index: index})
}

// TombstoneRow returns the row that a tombstone deletes, which is the line with the key, and makes it the current
// value of the row paths.
func (d *Decoder) TombstoneRow(l *feed.Line) Row {
	row := Row{Value: bytes.TrimSpace(l.Text)}
	d.BeginRow(row.Value, 0)
	return row
}

// isComposite reports whether a value is an object or an array.
func isComposite(v *feed.Field) bool { return v != nil && v.Kind == feed.JSON }

// hasElements reports whether an array or object is not empty.
func hasElements(value []byte) bool {
	w := feed.Walk(value)
	w.Next() // into it
	return w.Next()
}
