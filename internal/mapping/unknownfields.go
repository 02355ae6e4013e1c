package mapping

import (
	"bytes"
	"slices"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
)

// fieldNumbers has the numbers of names deeper in a message than the scanner numbers them.
type fieldNumbers struct {
	numbers    map[string]int32
	unnumbered [][]byte
	text       []byte
}

// most is the maximum number of cached names.
const most = 10_000

// number returns the number of a name; a negative one refers to unnumbered. raw is the raw name, between its quotes.
func (r *fieldNumbers) number(names *feed.Names, raw []byte) int32 {
	name := raw
	if bytes.IndexByte(raw, '\\') >= 0 {
		r.text = feed.AppendUnquoted(r.text[:0], raw)
		name = r.text
	}
	if n, ok := r.numbers[string(name)]; ok {
		return n
	}
	n := names.Intern(name)
	if n < 0 {
		r.unnumbered = append(r.unnumbered, bytes.Clone(name))
		return ^int32(len(r.unnumbered) - 1)
	}
	if r.numbers == nil {
		r.numbers = map[string]int32{}
	}
	if len(r.numbers) < most {
		r.numbers[string(name)] = n
	}
	return n
}

// unknownFields adds the fields without a mapped column under their own names, and copies key fields to key. markOnly
// adds only the fields that are set when a row is marked as deleted.
func (b *rowBuilder) unknownFields(msg *message, t *tablePlan, types *typing, object *feed.Field, key []feed.Field, markOnly bool) *refusal {
	var bad *refusal
	refused := b.eachUnknownField(msg, t, object, func(f feed.Field, name []byte) {
		if markOnly && !t.marksWith(f.Name) {
			return
		}
		if types != nil && bad == nil {
			f, bad = b.readTyped(t, types, f, name)
		}
		t.setKeyPart(f, key)
		b.fields = append(b.fields, f)
	})
	if refused != nil {
		return refused
	}
	return bad
}

// eachUnknownField calls each with the fields of a row that no column or path uses. It also passes their raw names if
// the row is not the message.
func (b *rowBuilder) eachUnknownField(msg *message, t *tablePlan, object *feed.Field, each func(f feed.Field, name []byte)) *refusal {
	if t.row.inLine {
		b.unknownNames.unnumbered = msg.line.Unnumbered
		for _, f := range msg.line.Fields {
			if refused := b.unknownField(t, f, nil, each); refused != nil {
				return refused
			}
		}
		return nil
	}
	w := feed.Walk(object.Value)
	w.Next()
	for w.Next() {
		f := feed.Field{Name: b.unknownNames.number(t.fields.names, w.Name), Kind: w.Kind}
		name := w.Name
		f.Value = w.Raw()
		if refused := b.unknownField(t, f, name, each); refused != nil {
			return refused
		}
	}
	return nil
}

// unknownField calls each with a field unless a column or path uses it. It refuses the field if the table rejects
// unknown fields.
func (b *rowBuilder) unknownField(t *tablePlan, f feed.Field, name []byte, each func(f feed.Field, name []byte)) *refusal {
	if refused := b.unknownNames.check(t, f.Name); refused != nil {
		return refused
	}
	if t.fields.isUsed(f.Name) {
		b.noteLost(t, f.Name)
	} else {
		each(f, name)
	}
	return nil
}

// isUsed reports whether a column or path uses a field, so it needs no column of its own.
func (f *fieldPlan) isUsed(number int32) bool { return number >= 0 && f.used[number] }

// noteLost records the value of a used field as lost if only its name is used: the column with that name has another
// source.
func (b *rowBuilder) noteLost(t *tablePlan, number int32) {
	if t.fields.nameOnly[number] {
		b.notes = append(b.notes, fold.Note{Kind: fold.NameTaken, Table: t.spec.Name, Column: t.fields.names.Name(number)})
	}
}

// check refuses a field if the table rejects unknown fields and no column or path uses it.
func (r *fieldNumbers) check(t *tablePlan, number int32) *refusal {
	if t.fields.all || t.fields.unknown != fold.RejectUnknown || number >= 0 && t.fields.used[number] && !t.fields.nameOnly[number] {
		return nil
	}
	name := t.fields.names.NameOf(number, r.unnumbered)
	return t.refuse(feed.Errorf(feed.BadColumn, "table %q: no column takes the field %q (unknown_fields: reject)", t.spec.Name, name))
}

// checkShadowed rejects an element with a field that no column can store because a column of the parent's key has its
// name. A field that repeats the key is accepted.
func (b *rowBuilder) checkShadowed(t *tablePlan, key []feed.Field) *refusal {
	for i := range t.fields.shadowed {
		h := &t.fields.shadowed[i]
		v := b.read.Get(h.at)
		if v == nil || h.part >= 0 && string(b.read.Text(v)) == string(feed.Text(nil, key[h.part].Value, key[h.part].Kind)) {
			continue
		}
		to := parentColumn(t.spec.Of, h.parents)
		if to == h.title {
			to = "parent_" + h.parents
		}
		return t.refuse(feed.Errorf(feed.BadColumn, "table %q: the element has a field %q of its own (%s), and the column of that name has the key of its parent: parent: {%s: %s} renames that one",
			t.spec.Name, h.title, feed.Clip(v.Value), h.parents, to))
	}
	return nil
}

// marksWith reports whether a message that marks its row as deleted sets a field: a part of the key, or the column
// with the row's version.
func (t *tablePlan) marksWith(name int32) bool {
	o := &t.options
	return o.Scope == fold.RowScope && name >= 0 && t.fields.names.Name(name) == o.Version || slices.ContainsFunc(t.key, func(k keyPart) bool { return k.name == name && !k.fromParent })
}

// setKeyPart copies a field to its part of the key, if it is one.
func (t *tablePlan) setKeyPart(f feed.Field, key []feed.Field) {
	for part := range t.key {
		if t.key[part].name == f.Name && !t.key[part].fromParent {
			key[part] = f
		}
	}
}
