package envelope

import (
	"bytes"
	"iter"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/mapping/paths"
)

// row composes a row from the parts of the message: the row itself, and the row before the change.
func (d *Decoder) row(c *Change, row, old *feed.Field, index int) (out Row, err *feed.Error) {
	key := d.read.Value(&d.spec.Key)
	if !isComposite(key) || key.Value[0] == '[' {
		key = nil
	}
	if !isComposite(old) {
		old = nil
	}
	if c.Op == Delete && old != nil {
		row, old = old, nil
	}
	switch {
	case isComposite(row):
	case row != nil && row.Kind != feed.Null:
		return out, feed.Errorf(feed.BadValue, "the row is not an object but %s", feed.Clip(row.Value))
	case key == nil:
		return out, feed.Errorf(feed.BadValue, "the message has no row (%s)", d.placesOfRow(c))
	default:
		row = nil
	}
	unset := d.read.Value(&d.spec.Unset)
	if c.Op == Replace {
		unset = nil
	}
	out.Index = index
	if out.Value, err = d.compose(c, unset, key, row); err != nil || old == nil || c.Op == Delete {
		return out, err
	}
	out.Former, err = d.compose(c, key, row, old)
	return out, err
}

// placesOfRow returns the paths where a row may be, for an error.
func (d *Decoder) placesOfRow(c *Change) string {
	var places []string
	for _, p := range d.spec.Row {
		places = append(places, p.String())
	}
	if c.Op == Delete && d.spec.Old.Base != paths.NoBase {
		places = append(places, d.spec.Old.String())
	}
	return strings.Join(places, ", ")
}

// compose merges parts into one object: if a name occurs several times, the last one is used. nil parts are skipped.
// A part that is an array contains objects with name and value, or names of fields that are null.
func (d *Decoder) compose(c *Change, parts ...*feed.Field) ([]byte, *feed.Error) {
	var only *feed.Field
	n := 0
	for _, p := range parts {
		if isComposite(p) && string(p.Value) != "[]" {
			only = p
			n++
		}
	}
	if n == 1 && only.Value[0] == '{' && len(d.omitted.names)+len(d.omitted.prefixes) == 0 && d.spec.Unset.Base == paths.NoBase && !d.absent.mayBeIn(only.Value) {
		return only.Value, nil
	}
	from := len(d.bytes)
	d.bytes = append(d.bytes, '{')
	for _, p := range parts {
		if !isComposite(p) {
			continue
		}
		if err := d.appendFields(c, p); err != nil {
			return nil, err
		}
	}
	d.bytes = append(d.bytes, '}')
	return d.bytes[from:len(d.bytes):len(d.bytes)], nil
}

// appendFields appends the fields of an object or of an array of fields.
func (d *Decoder) appendFields(c *Change, v *feed.Field) *feed.Error {
	w := feed.Walk(v.Value)
	w.Next()
	array := w.Array()
	for w.Next() {
		if !array {
			name := w.Name
			if err := d.appendField(c, name, w.Raw()); err != nil {
				return err
			}
			continue
		}
		kind, raw := w.Kind, w.Raw()
		name, value, ok := pair(kind, raw)
		if !ok {
			return feed.Errorf(feed.BadValue, "an array of fields has objects with name and value, or names of fields that are NULL, and not %s", feed.Clip(raw))
		}
		if value == nil {
			continue
		}
		if err := d.appendField(c, name, value); err != nil {
			return err
		}
	}
	return nil
}

var null = []byte("null")

// pair reads an element of an array of fields: an object with name and value, or the name of a field that is null.
func pair(k feed.Kind, raw []byte) (name, value []byte, ok bool) {
	if k == feed.String {
		return raw[1 : len(raw)-1], null, true
	}
	n := feed.Member(raw, "name")
	if n.Kind != feed.String {
		return nil, nil, false
	}
	return n.Value[1 : len(n.Value)-1], feed.Member(raw, "value").Value, true
}

// appendField appends a field to the object under construction, unless it is omitted or absent. raw is the name
// between its quotes.
func (d *Decoder) appendField(c *Change, raw, value []byte) *feed.Error {
	name := feed.Unquoted(nil, raw)
	if d.Omits(name) {
		return nil
	}
	if d.absent.has(value) {
		if c.Inserts {
			return feed.Errorf(feed.BadValue, "a changed key, and the source left out the unchanged value of %q, so the row is missing: set REPLICA IDENTITY FULL on the source's table, and take a new snapshot", feed.Clip(name))
		}
		return nil
	}
	if d.spec.Unset.Base != paths.NoBase && c.Op != Replace && bytes.IndexByte(name, '.') >= 0 && !d.trees.ReadsMember(paths.Place{Tree: d.rowTree}, name) {
		return feed.Errorf(feed.BadValue, "the field %q is part of a column's value, and weir sets whole columns: have the messages contain the whole row, or name a column for the field", name)
	}
	if d.bytes[len(d.bytes)-1] != '{' {
		d.bytes = append(d.bytes, ',')
	}
	d.bytes = append(append(append(d.bytes, '"'), raw...), '"', ':')
	if d.spec.ExtendedJSON {
		d.bytes = appendPlain(d.bytes, value)
	} else {
		d.bytes = append(d.bytes, value...)
	}
	return nil
}

// Complete returns a row, with the fields added that only its former state has.
func (d *Decoder) Complete(c *Change, row *Row) ([]byte, *feed.Error) {
	from := len(d.bytes)
	d.bytes = append(d.bytes, bytes.TrimSpace(row.Value[:len(row.Value)-1])...)
	w := feed.Walk(row.Former)
	for w.Next(); w.Next(); {
		name, value := w.Name, w.Raw()
		if feed.Member(row.Value, string(name)).Value != nil {
			continue
		}
		if err := d.appendField(c, name, value); err != nil {
			return nil, err
		}
	}
	d.bytes = append(d.bytes, '}')
	return d.bytes[from:len(d.bytes):len(d.bytes)], nil
}

// keyNames returns the names of the fields of a key, each once; nil if one has no name.
func keyNames(value []byte) []string {
	names := []string{}
	for raw := range keyFields(value) {
		if raw == nil {
			return nil
		}
		if name := string(feed.AppendUnquoted(nil, raw)); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// keyFields yields the raw names of the fields of an object, or of an array of names or fields. It yields nil for an
// element without a name.
func keyFields(value []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		w := feed.Walk(value)
		w.Next()
		array := w.Array()
		for w.Next() {
			name, raw := w.Name, w.Raw()
			if array {
				if name = nil; w.Kind == feed.String {
					name = raw[1 : len(raw)-1]
				} else if w.Kind == feed.JSON {
					name, _, _ = pair(w.Kind, raw)
				}
			}
			if !yield(name) {
				return
			}
		}
	}
}
