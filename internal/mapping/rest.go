package mapping

import (
	"bytes"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
)

// restNames are the names of fields that stand deeper in a message than its scanner numbers
// names.
type restNames struct {
	numbers    map[string]int32
	unnumbered [][]byte
	text       []byte
}

// most is how many names are kept with their numbers.
const most = 10_000

// number returns the number of a name, or below 0 that of one in unnumbered. raw is what
// stands between the quotes.
func (r *restNames) number(names *feed.Names, raw []byte) int32 {
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

// named tells that a table takes fields of the row by their names.
func (t *planned) named() bool { return t.everything || t.rest != fold.IgnoreColumns }

// others adds the fields of a row that a table takes by their names. Those of its key are noted.
func (s *Scratch) others(t *planned, object *feed.Field, key []feed.Field) *feed.Error {
	var bad *feed.Error
	err := s.namedFields(t, object, func(f feed.Field, name []byte) {
		if s.stream.typing != nil && bad == nil {
			f, bad = s.typed(f, name)
		}
		t.noteKey(f, key)
		s.fields = append(s.fields, f)
	})
	if err != nil {
		return err
	}
	return bad
}

// namedFields calls each with the fields of a row that no column takes, and what stands between
// the quotes of their names where they are not those of the message.
func (s *Scratch) namedFields(t *planned, object *feed.Field, each func(f feed.Field, name []byte)) *feed.Error {
	if t.inLine {
		s.rest.unnumbered = s.line.Unnumbered
		for _, f := range s.line.Fields {
			if err := s.rest.check(t, f.Name); err != nil {
				return err
			}
			if !s.isUsed(t, f.Name) {
				each(f, nil)
			}
		}
		return nil
	}
	w := feed.Walk(object.Value)
	w.Next()
	for w.Next() {
		f := feed.Field{Name: s.rest.number(t.names, w.Name), Kind: w.Kind}
		name := w.Name
		f.Value = w.Raw()
		if err := s.rest.check(t, f.Name); err != nil {
			return err
		}
		if !s.isUsed(t, f.Name) {
			each(f, name)
		}
	}
	return nil
}

// isUsed reports whether a field is none of those that a table takes by their names.
func (s *Scratch) isUsed(t *planned, number int32) bool {
	if number < 0 || !t.used[number] {
		return false
	}
	if t.taken[number] {
		s.Lost = append(s.Lost, LostValue{t.spec.Name, t.names.Name(number), NameTaken})
	}
	return true
}

// check demands that a table takes a field.
func (r *restNames) check(t *planned, number int32) *feed.Error {
	if t.everything || t.rest != fold.RejectColumns || number >= 0 && t.used[number] && !t.taken[number] {
		return nil
	}
	name := ""
	if number >= 0 {
		name = t.names.Name(number)
	} else {
		name = string(r.unnumbered[^number])
	}
	return feed.Errorf(feed.BadColumn, "table %q: no column takes the field %q (unknown_fields: reject)", t.spec.Name, name)
}

// checkHidden rejects an element with a field that has the name of a column with its parent's key, unless it
// repeats the key: no column could take it.
func (s *Scratch) checkHidden(t *planned, key []feed.Field) *feed.Error {
	for i := range t.hides {
		h := &t.hides[i]
		v := s.get(h.at)
		if v == nil || h.part >= 0 && string(s.textOf(v)) == string(feed.Text(nil, key[h.part].Value, key[h.part].Kind)) {
			continue
		}
		to := ParentColumn(t.spec.Of, h.parents)
		if to == h.title {
			to = "parent_" + h.parents
		}
		return feed.Errorf(feed.BadColumn, "table %q: the element has a field %q of its own (%s), and the column of that name has the key of its parent: parent: {%s: %s} renames that one",
			t.spec.Name, h.title, brief(v), h.parents, to)
	}
	return nil
}

// noteKey notes a field of the key.
func (t *planned) noteKey(f feed.Field, key []feed.Field) {
	for part := range t.key {
		if t.key[part].name == f.Name && !t.key[part].above {
			key[part] = f
		}
	}
}
