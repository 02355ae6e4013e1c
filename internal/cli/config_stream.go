package cli

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/config"
	"github.com/weirsync/weir/internal/envelope"
	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/paths"
)

// A streamTable describes a table in a sample of a change stream.
type streamTable struct {
	name    string // as in the stream, with its schema
	changes []rowChange
	key     []string
	fields  *sampledField // its members are the columns
}

// A rowChange is a row in a message, before and after. A delete has no after; an update may have no before.
type rowChange struct {
	insert        bool
	before, after map[string]string
}

const (
	maxStreamTables = 50
	maxKeyFields    = 8   // maximum fields considered for a key
	maxKeyBytes     = 200 // maximum bytes of a value in a key
)

// streamTables returns the tables of a change stream with their rows. It returns none if the stream names the keys of
// rows, or if its rows are not objects with the values before the change.
func (d *draft) streamTables() []*streamTable {
	spec, err := config.Preset(d.envelope)
	if err != nil || spec.Key.Base != paths.NoBase || spec.Old.Base == paths.NoBase || spec.Each.Base != paths.NoBase || len(spec.Row) != 1 {
		return nil
	}
	var tables []*streamTable
	byName := map[string]*streamTable{}
	for _, m := range d.messages {
		message := json.RawMessage(m)
		if inner := member(message, spec.Unwrap); isObject(inner) {
			message = inner
		}
		name := streamName(message, spec)
		before, after := member(message, spec.Old), member(message, spec.Row[0])
		if name == "" || !isObject(before) && !isObject(after) {
			continue
		}
		t := byName[name]
		if t == nil {
			if len(tables) == maxStreamTables {
				continue
			}
			t = &streamTable{name: name, fields: newSampledField(nil, name)}
			byName[name] = t
			tables = append(tables, t)
		}
		var op string
		_ = json.Unmarshal(member(message, paths.Path{Base: paths.DefaultBase, Steps: []paths.Step{{Name: "op", Index: -1}}}), &op)
		t.changes = append(t.changes, rowChange{op == "c" || op == "r", scalars(before), scalars(after)})
		if isObject(after) {
			t.fields.add(feed.JSON, after)
		}
	}
	for _, t := range tables {
		t.key = t.findKey()
	}
	return tables
}

// member returns the value at a path, or nil.
func member(v json.RawMessage, p paths.Path) json.RawMessage {
	if p.Base == paths.NoBase {
		return nil
	}
	for _, step := range p.Steps {
		var object map[string]json.RawMessage
		if json.Unmarshal(v, &object) != nil {
			return nil
		}
		v = object[step.Name]
	}
	return v
}

func isObject(v json.RawMessage) bool {
	v = bytes.TrimSpace(v)
	return len(v) > 0 && v[0] == '{'
}

// streamName returns the name of a message's table in the stream.
func streamName(message json.RawMessage, spec *envelope.Envelope) string {
	var parts []string
	for _, p := range spec.Table {
		var part string
		if json.Unmarshal(member(message, p), &part) == nil && part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, ".")
}

// scalars returns the values of a row that can be in a key, as text; nil if there is no row.
func scalars(row json.RawMessage) map[string]string {
	if !isObject(row) {
		return nil
	}
	values := map[string]string{}
	for w := feed.Walk(row); w.Next(); {
		if w.Depth != 1 || w.Name == nil {
			continue
		}
		name, kind, raw := memberName(w.Name), w.Kind, w.Raw()
		if len(raw) > maxKeyBytes || bytes.HasPrefix(raw, []byte(`"{`)) || bytes.HasPrefix(raw, []byte(`"[`)) { // JSON in a string
			continue
		}
		if k := kindOfValue(kind, raw); k != nullValue && k != boolValue && k != objectValue && k != arrayValue && k != realValue && k != longValue {
			values[name] = string(feed.Text(nil, raw, kind))
		}
	}
	return values
}

// findKey returns the fields that identify a row in the sample: no insert repeats them while the row exists, and no
// update changes them. It returns nil if there are none.
func (t *streamTable) findKey() []string {
	var fields []string
	for _, f := range t.fields.members {
		if len(fields) < maxKeyFields && f.present == t.fields.present && !timeName.MatchString(f.name) {
			fields = append(fields, f.name)
		}
	}
	type candidate struct {
		key           []string
		without, rank int
	}
	var all []candidate
	fewest := len(t.changes)
	for n := 1; n <= 3; n++ {
		for _, key := range combinations(fields, n) {
			if without, ok := t.fits(key); ok {
				all = append(all, candidate{key, without, t.rank(key)})
				fewest = min(fewest, without)
			}
		}
	}
	// A sample that begins in the middle has a few changes without a row under any key, but many under a wrong one.
	all = slices.DeleteFunc(all, func(c candidate) bool { return c.without > fewest+len(t.changes)/50 })
	if len(all) == 0 {
		return nil
	}
	return slices.MinFunc(all, func(a, b candidate) int { return a.rank - b.rank }).key
}

// rank orders likely keys first: few fields, the first fields of the row, typical names of keys.
func (t *streamTable) rank(key []string) int {
	last := slices.IndexFunc(t.fields.members, func(f *sampledField) bool { return f.name == key[len(key)-1] })
	if len(key) == 1 && keyName.MatchString(key[0]) {
		return last - maxKeyFields
	}
	return last + len(key)
}

// fits reports whether a key can identify the rows, and counts the updates and deletes without a row.
func (t *streamTable) fits(key []string) (without int, ok bool) {
	exists := map[string]bool{}
	for _, c := range t.changes {
		was, is := keyText(c.before, key), keyText(c.after, key)
		switch {
		case c.after != nil && is == "", c.before != nil && c.after != nil && was != "" && was != is:
			return 0, false
		case c.after == nil:
			if was == "" {
				return 0, false
			}
			if !exists[was] {
				without++
			}
			delete(exists, was)
		case c.insert && exists[is]:
			return 0, false
		default:
			if !c.insert && !exists[is] {
				without++
			}
			exists[is] = true
		}
	}
	return without, true
}

// keyText returns the key of a row as text, or "" if the row lacks one of the fields.
func keyText(row map[string]string, key []string) string {
	var text []byte
	for _, field := range key {
		value, ok := row[field]
		if !ok {
			return ""
		}
		text = append(append(text, value...), 0)
	}
	return string(text)
}

// combinations returns all choices of n names, in their order.
func combinations(names []string, n int) (all [][]string) {
	if n == 0 {
		return [][]string{nil}
	}
	for i, name := range names {
		for _, rest := range combinations(names[i+1:], n-1) {
			all = append(all, append([]string{name}, rest...))
		}
	}
	return all
}

// streamTablesText writes the tables of the stream whose key is not id.
func (d *draft) streamTablesText(line func(string, ...any)) {
	tables := map[string]int{}
	for _, t := range d.streams {
		tables[t.shortName()]++
	}
	for _, t := range d.streams {
		if t.keyIsID() {
			continue
		}
		name, from := t.shortName(), ""
		if tables[name] > 1 || !plainName.MatchString(name) {
			name, from = strings.ReplaceAll(t.name, ".", "_"), "from: "+quotedYAML(t.name)+", "
		}
		if t.key == nil {
			line("  # No key of %s shows in the sample. Unless it is named here, the key is id:", oneLine(t.name))
			line("  # %s: {%skey: [id], unknown_fields: add}", quotedYAML(name), from)
			continue
		}
		line("  %s: {%skey: [%s], unknown_fields: add}", quotedYAML(name), from, strings.Join(mapped(t.key, quotedYAML), ", "))
	}
}

// keyIsID reports whether the key is the default key.
func (t *streamTable) keyIsID() bool { return slices.Equal(t.key, []string{"id"}) }

// shortName returns the name of a table without its schema.
func (t *streamTable) shortName() string { return t.name[strings.LastIndex(t.name, ".")+1:] }
