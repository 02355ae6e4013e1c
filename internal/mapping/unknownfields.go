package mapping

import (
	"bytes"

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

// unknownFields adds the fields without a mapped column under their own names, and copies key fields to key.
func (b *rowBuilder) unknownFields(msg *message, t *TablePlan, types *typing, object *feed.Field, key []feed.Field, deletes bool) *refusal {
	if t.row.inLine {
		b.unknownNames.unnumbered = msg.line.Unnumbered
		for _, f := range msg.line.Fields {
			if refused := b.unknownField(t, nil, f, nil, key, deletes); refused != nil {
				return refused
			}
		}
		return nil
	}
	w := feed.Walk(object.Value)
	w.Next()
	for w.Next() {
		name, f := w.Name, w.Field()
		f.Name = b.unknownNames.number(b.plan.names, name)
		if refused := b.unknownField(t, types, f, name, key, deletes); refused != nil {
			return refused
		}
	}
	return nil
}

// unknownField adds a field of a row, unless a column or path uses it. raw is the raw name, between its quotes, for types.
func (b *rowBuilder) unknownField(t *TablePlan, types *typing, f feed.Field, raw []byte, key []feed.Field, deletes bool) (refused *refusal) {
	switch {
	case f.Name >= 0 && t.fields.used[f.Name]:
		return nil
	case t.owner != nil && t.owner.name == f.Name:
		return b.shadowed(t, &f, t.owner.column, t.nest.parent.identity()[0], deletes)
	}
	for part := range t.key {
		switch k := &t.key[part]; {
		case k.name != f.Name:
		case !k.fromParent:
			key[part] = f
		case string(b.read.Text(&f)) == string(feed.Text(nil, key[part].Value, key[part].Kind)): // it repeats the key
			return nil
		default:
			return b.shadowed(t, &f, k.title, t.nest.parent.key[part].title, deletes)
		}
	}
	if !t.fields.all && t.Options.UnknownFields == fold.RejectUnknown {
		return t.refuse(feed.Errorf(feed.BadColumn, "table %q: no column takes the field %q (unknown_fields: reject)", t.spec.Name, b.plan.names.NameOf(f.Name, b.unknownNames.unnumbered)))
	}
	if types != nil {
		if f, refused = b.readTyped(t, types, f, raw); refused != nil {
			return refused
		}
	}
	b.fields = append(b.fields, f)
	return nil
}

// shadowed rejects an element with a field that no column can store, because the column of its name has the key of the
// parent, in the parent's column parents. A delete stores nothing.
func (b *rowBuilder) shadowed(t *TablePlan, f *feed.Field, title, parents string, deletes bool) *refusal {
	if deletes {
		return nil
	}
	to := parentColumn(t.spec.Of, parents)
	if to == title {
		to = "parent_" + parents
	}
	return t.refuse(feed.Errorf(feed.BadColumn, "table %q: the element has a field %q of its own (%s), and the column of that name has the key of its parent: parent: {%s: %s} renames that one",
		t.spec.Name, title, feed.Clip(f.Value), parents, to))
}
