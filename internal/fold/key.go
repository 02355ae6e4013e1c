package fold

import (
	"encoding/binary"
	"slices"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/schema"
)

// This file is about the keys of rows.

// checkKey reports what is wrong with the key of the change at hand.
func (f *Folder) checkKey(fields []feed.Field) error {
	size := 0
	for part, at := range f.now.keys {
		name := f.opt.Key[part]
		if at < 0 {
			return feed.Errorf(feed.BadKey, "the key field %q is missing", name)
		}
		if kind := fields[at].Kind; kind == feed.Null || kind == feed.JSON {
			return feed.Errorf(feed.BadKey, "the key field %q is %s", name, kind)
		}
		size += len(fields[at].Value)
	}
	if most := f.opt.Limits.MaxKey; size > most && most > 0 { // its text has less than its JSON
		if size = f.keySize(fields); size > most {
			return feed.Errorf(feed.BadKey, "the key has %d bytes: the database can index %d", size, most)
		}
	}
	return nil
}

// checkAppended reports why the change at hand cannot be a row of a table without a key.
func (f *Folder) checkAppended(c *Change) error {
	switch c.Op {
	case Upsert:
	case Replace: // there is no row before it
		c.Op = Upsert
	default:
		return feed.Errorf(feed.BadKey, "the table has no key (key: none), so no message can delete its rows; on_delete: row inserts the deleted row as one more")
	}
	for _, h := range f.now.hits {
		if f.fields.all[h].col >= 0 {
			return nil
		}
	}
	return feed.Errorf(feed.BadColumn, "none of the message's fields has a column, and a row needs one")
}

// keySize returns the bytes that the texts of the change's key have, however JSON spells them.
func (f *Folder) keySize(fields []feed.Field) (n int) {
	for _, at := range f.now.keys {
		f.now.text = feed.AppendText(f.now.text[:0], fields[at].Value, fields[at].Kind)
		n += len(f.now.text)
	}
	return n
}

// makeKey builds the key of the change at hand. It is the same for every order of
// --key, for what is kept beside a row is found by it.
func (f *Folder) makeKey(fields []feed.Field) {
	f.now.key = f.now.key[:0]
	for _, part := range f.parts {
		v := &fields[f.now.keys[part]]
		f.now.key = appendPart(f.now.key, &f.table.Columns[f.table.Key[part]], v.Value, v.Kind, len(f.now.keys) > 1)
	}
}

// appendPart appends a part of a key, of several or the only one.
func appendPart(key []byte, c *schema.Column, value []byte, k feed.Kind, several bool) []byte {
	from := len(key)
	if key = c.AppendKey(key, value, k); several {
		// A part ends with its length, so that no two keys run together.
		key = binary.BigEndian.AppendUint32(key, uint32(len(key)-from))
	}
	return key
}

// AppendKey appends [Row.Key] of the row whose key has these values, as JSON and in the order
// of t.Key.
func AppendKey(key []byte, t *schema.Table, values [][]byte) []byte {
	for _, part := range partsOf(t) {
		key = appendPart(key, &t.Columns[t.Key[part]], values[part], feed.KindOf(values[part]), len(values) > 1)
	}
	return key
}

// partsOf returns the parts of a table's key: those that no database has, wherever among the columns
// they are, and the others, in the order of the columns.
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

// KeyTexts is the way back of [AppendKey]: a text of each value, in the order of t.Key; nil where the key is none of the
// table's.
func KeyTexts(t *schema.Table, key []byte) [][]byte {
	texts := make([][]byte, len(t.Key))
	for _, part := range slices.Backward(partsOf(t)) {
		begin, end := 0, len(key)
		if len(t.Key) > 1 {
			if end -= 4; end < 0 {
				return nil
			}
			if begin = end - int(binary.BigEndian.Uint32(key[end:])); begin < 0 {
				return nil
			}
		}
		texts[part], key = t.Columns[t.Key[part]].KeyText(key[begin:end]), key[:begin]
	}
	if len(key) > 0 {
		return nil
	}
	return texts
}
