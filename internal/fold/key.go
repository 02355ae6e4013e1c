package fold

import (
	"encoding/binary"
	"slices"
	"strconv"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold/schema"
)

// This file is about the keys of rows.

// spellKey gives a number that identifies a row one spelling if its value is an integer of 64 bits: 100.0 and 1e2 are
// 100. It copies c.Fields, because other changes may share them.
func spellKey(c *Change, i int) {
	v := &c.Fields[i]
	if v.Kind != feed.Number && string(v.Value) != "-0" {
		return
	}
	text := feed.AppendDecimal(nil, v.Value)
	if _, err := strconv.ParseInt(string(text), 10, 64); err != nil {
		return
	}
	c.Fields = slices.Clone(c.Fields)
	c.Fields[i].Kind, c.Fields[i].Value = feed.Int, text
}

// checkKey returns an error if the change's key is incomplete, null, not a plain value, or too long.
func (f *Folder) checkKey(fields []feed.Field) error {
	size := 0
	for part, at := range f.now.keys {
		name := f.opt.Key[part]
		if at < 0 {
			if f.table.Columns[f.table.Key[part]].GeneratesNumbers() {
				return feed.Errorf(feed.BadKey, "the key field %q is missing, and the database generates it: name a unique column that messages have with --key or in a config file; the key none inserts each message as a row", name)
			}
			return feed.Errorf(feed.BadKey, "the key field %q is missing: name another with --key or in a config file", name)
		}
		if kind := fields[at].Kind; kind == feed.Null || kind == feed.JSON {
			return feed.Errorf(feed.BadKey, "the key field %q is %s", name, kind)
		}
		size += len(fields[at].Value)
	}
	if most := f.opt.Limits.MaxKey; size > most && most > 0 { // a text is at most as long as its JSON
		if size = f.keySize(fields); size > most {
			return feed.Errorf(feed.BadKey, "the key has %d bytes: the database can index %d", size, most)
		}
	}
	return nil
}

// checkAppended returns an error if the change cannot become a row of a table without a key.
func (f *Folder) checkAppended(c *Change) error {
	switch c.Op {
	case Upsert:
	case Replace: // there is no earlier row to replace
		c.Op = Upsert
	default:
		return feed.Errorf(feed.BadKey, "the table has no key (key: none), so no message can delete its rows")
	}
	for _, h := range f.now.hits {
		if f.fields.all[h].col >= 0 {
			return nil
		}
	}
	return feed.Errorf(feed.BadColumn, "none of the message's fields has a column, and a row needs one")
}

// keySize returns the size of the key's texts, without JSON's quotes and escapes.
func (f *Folder) keySize(fields []feed.Field) (n int) {
	for _, at := range f.now.keys {
		f.now.text = feed.AppendText(f.now.text[:0], fields[at].Value, fields[at].Kind)
		n += len(f.now.text)
	}
	return n
}

// makeKey builds the key of the change. It is the same for every order of --key, because stored versions are found by
// it.
func (f *Folder) makeKey(fields []feed.Field) {
	f.now.key = f.now.key[:0]
	for _, part := range f.parts {
		v := &fields[f.now.keys[part]]
		f.now.key = appendPart(f.now.key, &f.table.Columns[f.table.Key[part]], v.Value, v.Kind, len(f.now.keys) > 1)
	}
}

// appendPart appends one part of a key. several reports whether the key has more than one.
func appendPart(key []byte, c *schema.Column, value []byte, k feed.Kind, several bool) []byte {
	from := len(key)
	if key = c.AppendKey(key, value, k); several {
		// The length makes the ends of the parts unambiguous.
		key = binary.BigEndian.AppendUint32(key, uint32(len(key)-from))
	}
	return key
}

// AppendKey appends the [Row.Key] of the row with these key values, which are raw JSON in the order of t.Key.
func AppendKey(key []byte, t *schema.Table, values [][]byte) []byte {
	for _, part := range partsOf(t) {
		key = appendPart(key, &t.Columns[t.Key[part]], values[part], feed.KindOf(values[part]), len(values) > 1)
	}
	return key
}

// partsOf returns the parts of a table's key: first the hidden columns, which no database has, then the others
// in column order.
func partsOf(t *schema.Table) []int {
	parts := make([]int, len(t.Key))
	for part := range parts {
		parts[part] = part
	}
	slices.SortFunc(parts, func(a, b int) int {
		x, y := t.Key[a], t.Key[b]
		switch hidden := t.Columns[x].Hidden; {
		case hidden == t.Columns[y].Hidden:
			return x - y
		case hidden:
			return -1
		}
		return 1
	})
	return parts
}
