package mapping

import (
	"bytes"
	"slices"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
)

// fieldNumbers are the numbers of fields that stand deeper in a message than its scanner numbers
// names.
type fieldNumbers struct {
	numbers    map[string]int32
	unnumbered [][]byte
	text       []byte
}

// most is how many names are kept with their numbers.
const most = 10_000

// number returns the number of a name, or below 0 that of one in unnumbered. raw is what
// stands between the quotes.
func (r *fieldNumbers) number(names *feed.Names, raw []byte) int32 {
	name := raw
	if bytes.IndexByte(raw, '\\') >= 0 {
		r.text = feed.AppendUnquoted(r.text[:0], raw)
		name = r.text
	}
	if n, ok := r.numbers[string(name)]; ok {
		return n
	}
	n := names.Meet(name)
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

// unknownFields adds the fields without a mapped column under their own names, and copies key fields to key. markOnly leaves
// out the fields that a message does not set which marks its row as deleted.
func (b *rowBuilder) unknownFields(msg *message, t *planned, types *typing, object *feed.Field, key []feed.Field, markOnly bool) *refusal {
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

// eachUnknownField calls each with the fields of a row that no column or path uses, and what stands between the quotes of
// their names, if the row is not the message.
func (b *rowBuilder) eachUnknownField(msg *message, t *planned, object *feed.Field, each func(f feed.Field, name []byte)) *refusal {
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

// unknownField calls each with a field, unless a column or path uses it, and refuses it if the table rejects such fields.
func (b *rowBuilder) unknownField(t *planned, f feed.Field, name []byte, each func(f feed.Field, name []byte)) *refusal {
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

// isUsed reports whether a column or path uses a field, so that it needs no column of its own.
func (f *fieldPlan) isUsed(number int32) bool { return number >= 0 && f.used[number] }

// noteLost notes the value of a used field as lost if only its name is used: its column has another source.
func (b *rowBuilder) noteLost(t *planned, number int32) {
	if t.fields.nameOnly[number] {
		b.lost = append(b.lost, LostValue{t.spec.Name, t.fields.names.Name(number), NameTaken})
	}
}

// check demands that a table takes a field.
func (r *fieldNumbers) check(t *planned, number int32) *refusal {
	if t.fields.all || t.fields.unknown != fold.RejectUnknown || number >= 0 && t.fields.used[number] && !t.fields.nameOnly[number] {
		return nil
	}
	name := t.fields.names.NameOf(number, r.unnumbered)
	return t.refuse(feed.Errorf(feed.BadColumn, "table %q: no column takes the field %q (unknown_fields: reject)", t.spec.Name, name))
}

// checkShadowed rejects an element with a field that has the name of a column with its parent's key, unless it
// repeats the key: no column could take it.
func (b *rowBuilder) checkShadowed(t *planned, key []feed.Field) *refusal {
	for i := range t.fields.shadowed {
		h := &t.fields.shadowed[i]
		v := b.read.Get(h.at)
		if v == nil || h.part >= 0 && string(b.read.Text(v)) == string(feed.Text(nil, key[h.part].Value, key[h.part].Kind)) {
			continue
		}
		to := ParentColumn(t.spec.Of, h.parents)
		if to == h.title {
			to = "parent_" + h.parents
		}
		return t.refuse(feed.Errorf(feed.BadColumn, "table %q: the element has a field %q of its own (%s), and the column of that name has the key of its parent: parent: {%s: %s} renames that one",
			t.spec.Name, h.title, feed.Clip(v.Value), h.parents, to))
	}
	return nil
}

// marksWith reports whether a message that marks its row as deleted sets a field of the row: part of the key, or the column
// that keeps the version of the row.
func (t *planned) marksWith(name int32) bool {
	o := &t.options
	return o.Scope == fold.RowScope && name >= 0 && t.fields.names.Name(name) == o.Version || slices.ContainsFunc(t.key, func(k keyPart) bool { return k.name == name && !k.fromParent })
}

// setKeyPart copies a field to its part of the key, if it is one.
func (t *planned) setKeyPart(f feed.Field, key []feed.Field) {
	for part := range t.key {
		if t.key[part].name == f.Name && !t.key[part].fromParent {
			key[part] = f
		}
	}
}
