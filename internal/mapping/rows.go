package mapping

import (
	"bytes"
	"strconv"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/mapping/cast"
	"github.com/weirsync/weir/internal/mapping/envelope"
	"github.com/weirsync/weir/internal/mapping/paths"
)

// A message is the current message and its decoding state.
type message struct {
	line             *feed.Line
	place            fold.Place
	source           string // the source's name
	envelope.Message        // this and the next two: only with an envelope
	change           envelope.Change
	row              envelope.Row // the current row
}

// A rowBuilder builds rows from messages: it follows paths and casts values.
type rowBuilder struct {
	plan   *Plan
	read   *paths.Reader
	cast   *cast.Reader
	decode *envelope.Decoder
	scan   *feed.Scanner // of rows in strings
	inText feed.Line     // the row in the last of them
	// current returns the current columns of a table; nil: they are as the plan fits them.
	current func(table int) schema.Table
	adding  int // index of the table that [Mapper.Add] is adding, which current does not know; -1: none

	changes      []Row
	referenced   referencedRows
	fields       []feed.Field
	bytes        []byte // buffer for values that are not part of the line
	unknownNames fieldNumbers
	tables       []tableMemory
	metaValue    feed.Field // buffer for a meta value
}

// referencedRows holds changes that create the rows to which a message refers by foreign key.
type referencedRows struct {
	changes []Row
	keys    []feed.Field
}

// A tableMemory is what a mapper remembers of one table, and its buffers.
type tableMemory struct {
	key         []feed.Field // of the current row
	former, now []feed.Field // keys of a row before and after a message that changes its key
	set         []byte       // the set being built
	claimed     *route       // of its first row, if it must not get rows of others; see [Mapper.claim]
	typing      lastTyping
}

// newMemory returns the memory of a table without rows.
func (t *TablePlan) newMemory() tableMemory { return tableMemory{key: make([]feed.Field, len(t.key))} }

// begin resets the buffers for the next message. The last message's rows become invalid.
func (b *rowBuilder) begin() {
	clear(b.changes)
	clear(b.referenced.changes)
	b.changes, b.referenced.changes, b.referenced.keys = b.changes[:0], b.referenced.changes[:0], b.referenced.keys[:0]
	b.fields, b.bytes = b.fields[:0], b.bytes[:0]
	b.cast.Reset()
}

// result returns the built rows, followed by the rows that they refer to.
func (b *rowBuilder) result() []Row {
	b.changes = append(b.changes, b.referenced.changes...)
	return b.changes
}

// addLine returns the change of a line that is a row of the only table. Without this short way, the whole of a sync of
// plain lines takes 1.1 times as long.
func (b *rowBuilder) addLine(l *feed.Line) []Row {
	t := b.plan.Tables[0]
	b.changes = b.changes[:1]
	c := &b.changes[0].Change
	c.Op, c.Fields, c.Unnumbered, c.Text, c.Version = fold.Upsert, l.Fields, l.Unnumbered, l.Text, feed.Field{}
	if t.deletes != nil || !t.row.version.IsNowhere() {
		b.read.BeginLine(0, l)
		if v := b.read.Get(t.row.version); v != nil {
			c.Version = *v
		}
	}
	if !t.spec.isHistory() && (l.Deletes || b.read.Matches(t.deletes)) {
		c.Op = fold.Delete
	}
	return b.changes
}

// addRow adds the change of a table's row for the message or the current element, and the changes of its child rows.
// types is what the stream declares about the row, and parentKey the parent row's key, nil without a parent.
func (b *rowBuilder) addRow(msg *message, t *TablePlan, types *typing, parentKey []feed.Field) *refusal {
	var former []feed.Field
	if msg.row.Former != nil && !t.nest.isElement() {
		var refused *refusal
		if former, refused = b.formerKey(msg, t, types); refused != nil {
			return refused
		}
		if former != nil { // fields that the row lacks come from the former row
			row, err := b.decode.Complete(&msg.change, &msg.row)
			if err != nil {
				return t.refuse(err)
			}
			b.decode.BeginRow(row, msg.row.Index)
			defer b.decode.BeginRow(msg.row.Value, msg.row.Index)
		}
	}
	object, none, refused := b.object(t)
	if refused != nil || none {
		return refused
	}
	deletes := b.deletes(msg, t)
	c := fold.Change{Op: b.op(msg, t, deletes), Text: msg.line.Text, Version: b.version(msg, t)}
	if types != nil {
		c.Declared = types.declared
	}
	if t.isLine() {
		c.Fields, c.Unnumbered = msg.line.Fields, msg.line.Unnumbered
		b.changes = append(b.changes, Row{Table: t.index, Change: c})
		return nil
	}
	key, from := b.key(t, parentKey), len(b.fields)
	for i := range parentKey {
		key[i].Name = t.key[i].name
	}
	if refused := b.addValues(msg, t, types, object, key, deletes); refused != nil {
		return refused
	}
	c.Fields, c.Unnumbered = b.fields[from:len(b.fields):len(b.fields)], b.unknownNames.unnumbered
	if former != nil {
		n := len(b.fields)
		b.fields = append(b.fields, former...)
		b.changes = append(b.changes, Row{Table: t.index, Change: fold.Change{Op: fold.Delete, Fields: b.fields[n:len(b.fields):len(b.fields)], Version: c.Version, Text: c.Text}})
	}
	b.changes = append(b.changes, Row{Table: t.index, Change: c})
	if deletes {
		return nil
	}
	for _, child := range t.nest.children {
		if !child.nest.set {
			if _, refused := b.addElements(msg, child, key); refused != nil {
				return refused
			}
		}
	}
	return nil
}

// deletes reports whether the message deletes the current row.
func (b *rowBuilder) deletes(msg *message, t *TablePlan) bool {
	return !t.spec.isHistory() && (msg.line.Deletes || msg.change.Op == envelope.Delete || b.read.Matches(t.deletes))
}

// op returns the operation on the current row.
func (b *rowBuilder) op(msg *message, t *TablePlan, deletes bool) fold.Op {
	switch {
	case deletes:
		return fold.Delete
	case msg.change.Op == envelope.Replace && !t.nest.isElement():
		return fold.Replace
	}
	return fold.Upsert
}

// version returns the version of the current row, empty if it has none.
func (b *rowBuilder) version(msg *message, t *TablePlan) (v feed.Field) {
	if t.row.envelopeVersion {
		return msg.change.Version
	}
	if v := b.read.Get(t.row.version); v != nil {
		return *v
	}
	return v
}

// key returns the buffer for the row's key, which begins with a copy of parentKey.
func (b *rowBuilder) key(t *TablePlan, parentKey []feed.Field) []feed.Field {
	key := b.tables[t.index].key
	clear(key[copy(key, parentKey):])
	return key
}

// addValues adds the row's fields and completes its key, which already has the parent's. A delete needs only the key.
func (b *rowBuilder) addValues(msg *message, t *TablePlan, types *typing, object *feed.Field, key []feed.Field, deletes bool) *refusal {
	b.unknownNames.unnumbered = nil
	for i := 0; i < len(key) && t.key[i].fromParent; i++ {
		b.fields = append(b.fields, key[i])
	}
	for i := range t.columns {
		col := &t.columns[i]
		if deletes && col.key < 0 {
			continue
		}
		f, ok, refused := b.value(msg, t, types, col)
		if refused != nil {
			return refused
		}
		if !ok {
			continue
		}
		if col.references != nil && !deletes {
			b.addReferenced(msg, col, f)
		}
		if col.key >= 0 {
			key[col.key] = f
		}
		b.fields = append(b.fields, f)
	}
	if object != nil && (t.fields.all || t.byName() && !deletes) {
		if refused := b.unknownFields(msg, t, types, object, key, deletes); refused != nil {
			return refused
		}
	}
	if refused := t.checkKey(key); refused != nil || deletes {
		return refused
	}
	for _, child := range t.nest.children {
		if child.nest.set {
			if refused := b.addSet(msg, child, key); refused != nil {
				return refused
			}
		}
	}
	return nil
}

// isLine reports whether the line's fields are the row, with nothing added or left out.
func (t *TablePlan) isLine() bool {
	return t.fields.all && t.row.inLine && len(t.nest.children) == 0
}

// object returns the object that is the row. none means that there is no row.
func (b *rowBuilder) object(t *TablePlan) (_ *feed.Field, none bool, _ *refusal) {
	at := t.row.at
	if !t.row.text.IsNowhere() {
		at = t.row.text
	}
	v := b.read.Get(at)
	switch {
	case t.row.inLine:
		return v, false, nil
	case t.row.nested && (v == nil || v.Kind == feed.Null):
		if t.spec.DeletesNeedRow && b.read.Matches(t.deletes) {
			is := "absent"
			if v != nil {
				is = "null"
			}
			return nil, false, t.refuse(feed.Errorf(feed.BadKey, "table %q: %s is %s in a message that deletes its row, so the key is unknown; --envelope knows where change streams have it, and a config file can name another place, as in %[4]s: [%[2]s.%[4]s, before.%[4]s]",
				t.spec.Name, t.spec.Row, is, t.spec.Key[0]))
		}
		return nil, true, nil
	case at != t.row.at:
		return b.objectInText(t, v)
	case v.Kind == feed.JSON && v.Value[0] == '{':
		return v, false, nil
	case t.row.nested:
		return nil, false, t.refuse(feed.Errorf(feed.BadValue, "table %q: %s is not an object but %s", t.spec.Name, t.spec.Row, feed.Clip(v.Value)))
	}
	return nil, false, nil // a scalar element
}

// objectInText returns the object in a string, which must be one that a line could be.
func (b *rowBuilder) objectInText(t *TablePlan, v *feed.Field) (_ *feed.Field, none bool, _ *refusal) {
	if v.Kind != feed.String {
		return nil, false, t.refuse(feed.Errorf(feed.BadValue, "table %q: %s is not a string with an object but %s", t.spec.Name, t.spec.Row, feed.Clip(v.Value)))
	}
	from := len(b.bytes)
	b.bytes = feed.AppendText(b.bytes, v.Value, v.Kind)
	if b.inText.Scan(b.scan, b.inText.Fields[:0], b.bytes[from:]); b.inText.Err != nil {
		return nil, false, t.refuse(feed.Errorf(feed.BadValue, "table %q: the string %s is no object: %v", t.spec.Name, t.spec.Row.Path, b.inText.Err))
	}
	b.read.Begin(t.row.at.Tree, bytes.TrimSpace(b.inText.Text), feed.JSON)
	return b.read.Get(t.row.at), false, nil
}

// value returns the value of a column. ok is false if none of its sources is present.
func (b *rowBuilder) value(msg *message, t *TablePlan, types *typing, c *column) (f feed.Field, ok bool, _ *refusal) {
	for i := range c.sources {
		src := &c.sources[i]
		if src.When != nil && !b.read.Holds(src.When) {
			continue
		}
		var v *feed.Field
		switch {
		case src.Value != nil:
			f = src.fixed
			f.Name = c.name
			return f, true, nil
		case src.Meta != NoMeta:
			b.metaValue = b.meta(src.Meta, msg, t)
			v = &b.metaValue
		default:
			if v = b.read.Value(&src.From); v == nil {
				continue
			}
		}
		as := &src.cast
		if types != nil && types.sources[src] != nil {
			as = types.sources[src]
		}
		if as.Keeps(v.Kind) { // Read would return the same
			return feed.Field{Name: c.name, Kind: v.Kind, Value: v.Value}, true, nil
		}
		out, why := b.cast.Read(v, as)
		if why != "" {
			return f, false, t.refuse(feed.Errorf(feed.BadValue, "table %q, column %q: %s is %s: %s", t.spec.Name, c.spec.Name, src.title(), feed.Clip(v.Value), why))
		}
		out.Name = c.name
		return out, true, nil
	}
	return f, false, nil
}

// addReferenced adds the change that creates the row which v refers to, if it is missing.
func (b *rowBuilder) addReferenced(msg *message, c *column, v feed.Field) {
	if v.Kind == feed.Null {
		return
	}
	v.Name = c.references.table.key[0].name
	to := &b.referenced
	n := len(to.keys)
	to.keys = append(to.keys, v)
	to.changes = append(to.changes, Row{Table: c.references.table.index, Change: fold.Change{Op: fold.Ensure, Text: msg.line.Text, Fields: to.keys[n : n+1 : n+1]}})
}

// title returns the source's name for error messages.
func (s *source) title() string {
	if s.Meta != NoMeta {
		return "its " + string(s.Meta)
	}
	return s.From.String()
}

// meta returns metadata of the message or of the table's current element.
func (b *rowBuilder) meta(m Meta, msg *message, t *TablePlan) feed.Field {
	from, k := len(b.bytes), feed.Int
	switch m {
	case IndexMeta:
		b.bytes = strconv.AppendInt(b.bytes, int64(b.read.Element(t.nest.element).Index), 10)
	case KeyMeta:
		name := b.read.Element(t.nest.element).Key
		if name == nil {
			return feed.Field{Value: null, Kind: feed.Null}
		}
		b.bytes, k = append(append(append(b.bytes, '"'), name...), '"'), feed.String
	case LineMeta:
		b.bytes = strconv.AppendInt(b.bytes, msg.place.Line, 10)
	case OffsetMeta:
		b.bytes = strconv.AppendInt(b.bytes, msg.place.Offset, 10)
	default:
		b.bytes, k = feed.AppendString(b.bytes, msg.source), feed.String
	}
	return feed.Field{Value: b.bytes[from:len(b.bytes):len(b.bytes)], Kind: k}
}

var null = []byte("null")

// checkKey returns why the row's key is rejected, or nil.
func (t *TablePlan) checkKey(key []feed.Field) *refusal {
	for part := range key {
		f, k := &key[part], &t.key[part]
		switch {
		case k.fromParent:
		case f.Value == nil && t.streamKey != nil && k.title == DefaultKey:
			return t.refuse(feed.Errorf(feed.BadKey, "table %q: the key column %q has no value in this message: if the key is another field, name it with --key or in a config file", t.spec.Name, k.title))
		case f.Value == nil:
			return t.refuse(feed.Errorf(feed.BadKey, "table %q: the key column %q has no value in this message", t.spec.Name, k.title))
		case f.Kind == feed.Null || f.Kind == feed.JSON:
			return t.refuse(feed.Errorf(feed.BadKey, "table %q: the key column %q is %s", t.spec.Name, k.title, f.Kind))
		}
	}
	return nil
}

// formerKey returns the key that the row had before the message; nil if it had none or the same one.
func (b *rowBuilder) formerKey(msg *message, t *TablePlan, types *typing) (_ []feed.Field, refused *refusal) {
	x := &b.tables[t.index]
	b.decode.BeginRow(msg.row.Former, msg.row.Index)
	x.former, refused = b.keyOf(msg, t, types, x.former[:0])
	b.decode.BeginRow(msg.row.Value, msg.row.Index)
	if refused != nil || len(x.former) == 0 {
		return nil, refused
	}
	if x.now, refused = b.keyOf(msg, t, types, x.now[:0]); refused != nil {
		return nil, refused
	}
	for i := range x.now {
		was, is := &x.former[i], &x.now[i]
		if string(b.read.Text(was)) != string(feed.Text(nil, is.Value, is.Kind)) {
			return x.former, nil
		}
	}
	return nil, nil
}

// keyOf appends the current row's key in the table, or nothing if the table has no row for it.
func (b *rowBuilder) keyOf(msg *message, t *TablePlan, types *typing, to []feed.Field) ([]feed.Field, *refusal) {
	object, none, refused := b.object(t)
	if refused != nil || none {
		return to, refused
	}
	key, from := b.key(t, nil), len(b.fields)
	refused = b.addValues(msg, t, types, object, key, true)
	b.fields = b.fields[:from]
	for i, f := range key {
		f.Name = t.key[i].name
		to = append(to, f)
	}
	return to, refused
}
