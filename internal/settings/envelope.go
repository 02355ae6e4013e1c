package settings

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/weirsync/weir/internal/envelope"
	"github.com/weirsync/weir/internal/paths"
)

var envelopeKeys = []key[envelope.Envelope]{
	{"unwrap", "path of the message in the line. If nothing is there, the line is the message", "", pathForm, func(r *reader, e *envelope.Envelope, n *yaml.Node, where string) { e.Unwrap = r.path(n, where) }},
	{"connect_schema", "path of the message's Kafka Connect schema in the line, which gives fields their types", "", pathForm, func(r *reader, e *envelope.Envelope, n *yaml.Node, where string) { e.ConnectSchema = r.path(n, where) }},
	{"table", "path of the table's name, or of its parts, such as schema and table", "", pathsForm, func(r *reader, e *envelope.Envelope, n *yaml.Node, where string) {
		e.Table = r.paths(n, where)
	}},
	{"each", "path of an array whose elements are rows", "", pathForm, func(r *reader, e *envelope.Envelope, n *yaml.Node, where string) { e.Each = r.path(n, where) }},
	{"row", "path of the row, or several: the first that is not null counts. An object, or an array of `{name, value}`", "the message; with `each`, the element", pathsForm, func(r *reader, e *envelope.Envelope, n *yaml.Node, where string) {
		e.Row = r.paths(n, where)
	}},
	{"old", "path of the row before the change, or of a part with its key; with `each`, of a parallel array", "", pathForm, func(r *reader, e *envelope.Envelope, n *yaml.Node, where string) { e.Old = r.path(n, where) }},
	{"key", "path of an object with the key's fields, or of an array of their names", "", pathForm, func(r *reader, e *envelope.Envelope, n *yaml.Node, where string) { e.Key = r.path(n, where) }},
	{"record_key", "whether the Kafka record's key is the row's key", "", boolForm, func(r *reader, e *envelope.Envelope, n *yaml.Node, where string) {
		e.RecordKeys = r.boolean(n, where)
	}},
	{"delete_when", "messages that delete their row", "", ref("when"), func(r *reader, e *envelope.Envelope, n *yaml.Node, where string) { e.DeleteWhen = r.when(n, where) }},
	{"truncate_when", "messages that truncate their table", "", ref("when"), func(r *reader, e *envelope.Envelope, n *yaml.Node, where string) { e.TruncateWhen = r.when(n, where) }},
	{"replace_when", "messages with the complete row: columns that it lacks become NULL", "", ref("when"), func(r *reader, e *envelope.Envelope, n *yaml.Node, where string) { e.ReplaceWhen = r.when(n, where) }},
	{"write_when", "messages that set columns; those that match no condition are rejected", "all others", ref("when"), func(r *reader, e *envelope.Envelope, n *yaml.Node, where string) { e.WriteWhen = r.when(n, where) }},
	{"insert_when", "messages that insert their row; rejected if a value is `absent`", "", ref("when"), func(r *reader, e *envelope.Envelope, n *yaml.Node, where string) { e.InsertWhen = r.when(n, where) }},
	{"ignore", "messages to ignore and count, such as heartbeats", "", ref("when"), func(r *reader, e *envelope.Envelope, n *yaml.Node, where string) { e.Ignore = r.when(n, where) }},
	{"warn_when", "messages to ignore with one warning", "", ref("when"), func(r *reader, e *envelope.Envelope, n *yaml.Node, where string) { e.WarnWhen = r.when(n, where) }},
	{"fail_when", "messages that end the run", "", ref("when"), func(r *reader, e *envelope.Envelope, n *yaml.Node, where string) { e.FailWhen = r.when(n, where) }},
	{"omit", "fields of the row that are not columns; `ts_*` names a prefix", "", namesForm, func(r *reader, e *envelope.Envelope, n *yaml.Node, where string) {
		if e.Omit = r.names(n, where); slices.ContainsFunc(e.Omit, func(name string) bool { return strings.Contains(strings.TrimSuffix(name, "*"), "*") }) {
			r.fault(pos(n), where, "* may only be at the end of a name")
		}
	}},
	{"absent", "values that mean that the field is absent", "", namesForm, func(r *reader, e *envelope.Envelope, n *yaml.Node, where string) { e.Absent = r.names(n, where) }},
	{"unset", "path of an array of fields that become NULL", "", pathForm, func(r *reader, e *envelope.Envelope, n *yaml.Node, where string) { e.Unset = r.path(n, where) }},
	{"partial", "path of an array. If it has elements, the message changes parts of values and is rejected, unless its row is complete", "", pathForm, func(r *reader, e *envelope.Envelope, n *yaml.Node, where string) { e.Partial = r.path(n, where) }},
	{"extended_json", "whether values are wrapped with their types, as in MongoDB's Extended JSON: `{\"$oid\": …}`, `{\"$numberLong\": …}`, `{\"$date\": …}`", "", boolForm, func(r *reader, e *envelope.Envelope, n *yaml.Node, where string) {
		e.ExtendedJSON = r.boolean(n, where)
	}},
	{"schema", "path of a JSON Schema with the types of new columns, for tables that `'*'` stands for", "", pathForm, func(r *reader, e *envelope.Envelope, n *yaml.Node, where string) { e.Schema = r.path(n, where) }},
	{"schema_key", "path of an array of the key's fields, next to `schema`", "", pathForm, func(r *reader, e *envelope.Envelope, n *yaml.Node, where string) { e.SchemaKey = r.path(n, where) }},
	{"resume", "path of the value to resume the source from, printed to stdout once everything before it is committed", "", pathForm, func(r *reader, e *envelope.Envelope, n *yaml.Node, where string) { e.Resume = r.path(n, where) }},
	{"version", "path of the version, or of its parts, compared in order; `PATH as lsn`, `binlog`, `mongo_ts` or `timestamp` reads log positions. Needs `version: true`", "", pathsForm, func(r *reader, e *envelope.Envelope, n *yaml.Node, where string) {
		for _, item := range r.scalars(n, where, "paths") {
			part, err := envelope.ParseVersionPart(item.Value)
			if err != nil {
				r.fault(pos(item), where, "%v", err)
			}
			e.Version = append(e.Version, part)
		}
	}},
}

// scalars returns a single value, or the values of a list.
func (r *reader) scalars(n *yaml.Node, where, what string) (nodes []*yaml.Node) {
	items := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		items = r.items(n, where, what)
	}
	for _, item := range items {
		if _, ok := r.text(item, where); ok {
			nodes = append(nodes, item)
		}
	}
	return nodes
}

// paths reads a path, or a list of paths.
func (r *reader) paths(n *yaml.Node, where string) (all []paths.Path) {
	for _, item := range r.scalars(n, where, "paths") {
		all = append(all, r.path(item, where))
	}
	return all
}

// envelope reads an envelope: a preset's name, or keys.
func (r *reader) envelope(n *yaml.Node, where string) *envelope.Envelope {
	if n.Kind == yaml.MappingNode {
		return r.envelopeMap(n, where)
	}
	name, ok := r.text(n, where)
	if !ok {
		return nil
	}
	e, err := Preset(name)
	if err != nil {
		r.fault(pos(n), where, "%v", err)
	}
	return e
}

// envelopeMap reads the keys of an envelope.
func (r *reader) envelopeMap(n *yaml.Node, where string) *envelope.Envelope {
	e := &envelope.Envelope{}
	before := len(r.faults)
	given := readKeys(r, n, where, envelopeKeys, e)
	if len(r.faults) > before {
		return e
	}
	switch {
	case given["row"] == nil && given["each"] == nil:
		e.Row = []paths.Path{{Base: paths.DefaultBase}}
	case given["connect_schema"] != nil && given["unwrap"] == nil:
		r.fault(pos(given["connect_schema"]), where, "connect_schema needs unwrap: the path of the message")
	case given["row"] != nil && given["each"] != nil:
		r.fault(pos(given["row"]), where, "with each, the elements are the rows: leave row out")
	}
	check := func(p paths.Path, name string) {
		if p.Base == paths.ParentBase {
			r.fault(pos(given[name]), join(where, name), "%s: ^ is the parent of an element, and an envelope has none", p.Text)
		}
	}
	for name, all := range map[string][]paths.Path{"unwrap": {e.Unwrap}, "connect_schema": {e.ConnectSchema}, "table": e.Table, "each": {e.Each}, "row": e.Row, "old": {e.Old}, "key": {e.Key}, "unset": {e.Unset}, "partial": {e.Partial}, "schema": {e.Schema}, "schema_key": {e.SchemaKey}, "resume": {e.Resume}} {
		for _, p := range all {
			check(p, name)
		}
	}
	for _, part := range e.Version {
		check(part.From, "version")
	}
	for name, when := range map[string]paths.When{"delete_when": e.DeleteWhen, "truncate_when": e.TruncateWhen, "replace_when": e.ReplaceWhen, "write_when": e.WriteWhen, "insert_when": e.InsertWhen, "warn_when": e.WarnWhen, "fail_when": e.FailWhen, "ignore": e.Ignore} {
		for _, all := range when {
			for _, test := range all {
				check(test.Path, name)
			}
		}
	}
	return e
}

// Preset returns the envelope preset with a name.
func Preset(name string) (*envelope.Envelope, error) {
	names, nodes := presets()
	i := slices.Index(names, name)
	if i < 0 {
		return nil, fmt.Errorf("no envelope has the name %q; there are %s%s", name, strings.Join(names, ", "), DidYouMean(name, names))
	}
	r := &reader{file: "presets.yaml"}
	e := r.envelopeMap(nodes[i], name)
	if err := r.err(); err != nil {
		return nil, err
	}
	e.Preset = name
	return e, nil
}

// PresetNames returns the names of the presets.
func PresetNames() []string {
	names, _ := presets()
	return names
}

// presets are the built-in envelopes. They must not be changed.
var presets = sync.OnceValues(func() (names []string, nodes []*yaml.Node) {
	var doc yaml.Node
	if err := yaml.NewDecoder(bytes.NewReader(envelope.Presets)).Decode(&doc); err != nil {
		panic(err) // it is built in
	}
	for i := 0; i < len(doc.Content[0].Content); i += 2 {
		names, nodes = append(names, doc.Content[0].Content[i].Value), append(nodes, doc.Content[0].Content[i+1])
	}
	return names, nodes
})

// version returns the path of the version in an envelope's messages.
func (r *reader) version(e *envelope.Envelope, at paths.Pos) paths.Path {
	switch {
	case e == nil || e.Version == nil:
		r.fault(at, "version", "needs an envelope with a version: version_field names the field of one")
		return paths.Path{}
	case len(e.Version) > 1 || e.Version[0].As != envelope.NoCast:
		return paths.EnvelopeVersion
	}
	p := e.Version[0].From
	p.Base = paths.MessageBase
	return p
}

// envelopes checks the tables against the envelope.
func (c *checker) envelopes(m *mappingDraft) {
	for _, t := range m.tables {
		switch {
		case t.given["from"] == nil:
		case t.child():
			c.fault(t.place("from"), t.where+".from", "the rows come from messages of %s: set from there", t.Of)
		case m.Envelope == nil || m.Envelope.Table == nil:
			c.fault(t.place("from"), t.where+".from", "needs an envelope with table: the path of the table's name")
		}
		if t.IsStar() {
			c.star(m, t)
		} else if m.Envelope != nil && t.given["from"] == nil && strings.ContainsAny(t.Name, "*?") {
			c.fault(t.Pos, t.where, "a table has one name in the database: give it a name, and put the pattern into from")
		}
		if m.Envelope == nil || !m.Envelope.Removes() {
			continue
		}
		if t.FillOnly {
			c.fault(t.place("fill_only"), t.where, "fill_only never removes a row, and the envelope has delete_when, truncate_when or old: leave fill_only out")
		}
		if t.child() && !t.replaced() && t.given["version_field"] != nil {
			c.fault(t.place("version_field"), t.where+".version_field", "the envelope has delete_when, and a delete of a row of %s deletes the rows here: they use its version; leave version_field out", t.Of)
		}
	}
}

// star checks the table '*', which stands for all tables that are not named.
func (c *checker) star(m *mappingDraft, t *tableDraft) {
	if m.Envelope == nil || m.Envelope.Table == nil {
		c.fault(t.Pos, t.where, "stands for all tables without an entry, and needs an envelope with table: the path of the table's name")
	}
	for _, key := range []string{"from", "of", "each", "id"} {
		if t.given[key] != nil {
			c.fault(t.place(key), join(t.where, key), "is for a table that has a name: give it one")
		}
	}
	for _, col := range t.Columns {
		for _, s := range col.From {
			if s.References != "" {
				c.fault(s.Pos, t.where+".columns."+col.Name, "references is for a table that has a name: give it one")
			}
		}
	}
}

// envelopeNode writes an envelope with its keys.
func envelopeNode(e *envelope.Envelope) *yaml.Node {
	n := mapNode()
	addPaths := func(name string, all ...paths.Path) {
		var texts []string
		for _, p := range all {
			if p.Base != paths.NoBase {
				texts = append(texts, p.String())
			}
		}
		if texts != nil {
			add(n, name, listNode(texts))
		}
	}
	addWhen := func(name string, w paths.When) {
		if w != nil {
			add(n, name, whenNode(w))
		}
	}
	addPaths("unwrap", e.Unwrap)
	addPaths("connect_schema", e.ConnectSchema)
	addPaths("table", e.Table...)
	addPaths("each", e.Each)
	addPaths("row", e.Row...)
	addPaths("old", e.Old)
	addPaths("key", e.Key)
	if e.RecordKeys {
		add(n, "record_key", plainNode("true"))
	}
	addWhen("delete_when", e.DeleteWhen)
	addWhen("truncate_when", e.TruncateWhen)
	addWhen("replace_when", e.ReplaceWhen)
	addWhen("write_when", e.WriteWhen)
	addWhen("insert_when", e.InsertWhen)
	addWhen("ignore", e.Ignore)
	addWhen("warn_when", e.WarnWhen)
	addWhen("fail_when", e.FailWhen)
	if e.Omit != nil {
		add(n, "omit", listNode(e.Omit))
	}
	if e.Absent != nil {
		add(n, "absent", listNode(e.Absent))
	}
	addPaths("unset", e.Unset)
	addPaths("partial", e.Partial)
	if e.ExtendedJSON {
		add(n, "extended_json", plainNode("true"))
	}
	addPaths("schema", e.Schema)
	addPaths("schema_key", e.SchemaKey)
	addPaths("resume", e.Resume)
	if e.Version != nil {
		var parts []string
		for _, v := range e.Version {
			parts = append(parts, v.String())
		}
		add(n, "version", listNode(parts))
	}
	return n
}
