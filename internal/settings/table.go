package settings

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/weirsync/weir/internal/cast"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/merge"
	"github.com/weirsync/weir/internal/paths"
)

// A mappingDraft is a mapping that is being read.
type mappingDraft struct {
	mapping.Mapping
	defaults fold.Options
	version  bool // the envelope's version is used
	tables   []*tableDraft
	every    []mapping.PeriodicSQL
	cases    []Case
}

// A tableDraft is a table that is being read.
type tableDraft struct {
	mapping.Table
	where string
	given map[string]*yaml.Node // keys in the file
}

// place returns the position of a key of the table, or of the table.
func (t *tableDraft) place(name string) paths.Pos {
	if n := t.given[name]; n != nil {
		return pos(n)
	}
	return t.Pos
}

// NoKey is the key of a table without one: each message is its own row.
const NoKey = "none"

// mappingKeys are the top-level keys that are not settings.
var mappingKeys = []key[mappingDraft]{
	{"envelope", "how to read a change stream: a preset's name, or keys", "the message is the row", ref("envelope"), func(r *reader, m *mappingDraft, n *yaml.Node, where string) { m.Envelope = r.envelope(n, where) }},
	{"version", "whether to use the envelope's version", "", boolForm, func(r *reader, m *mappingDraft, n *yaml.Node, where string) { m.version = r.boolean(n, where) }},
	{"ignore", "messages to ignore and count, in addition to the envelope's", "", ref("when"), func(r *reader, m *mappingDraft, n *yaml.Node, where string) { m.Ignore = r.when(n, where) }},
	{"unmatched", "messages that no table takes: `ignore` and count them, `reject` them, or `fail`, which ends the run", "ignore", enum(unmatched...), func(r *reader, m *mappingDraft, n *yaml.Node, where string) {
		m.Unmatched = choice(r, n, where, unmatched...)
	}},
	{"max_each", "most elements of an array", "100000", countForm(1), func(r *reader, m *mappingDraft, n *yaml.Node, where string) { r.number(n, where, 1, &m.MaxEach) }},
	{"max_tables", "most tables", "100", countForm(1), func(r *reader, m *mappingDraft, n *yaml.Node, where string) { r.number(n, where, 1, &m.MaxTables) }},
	{"tables", "the tables: NAME or SCHEMA.NAME; `'*'` stands for each other table of a change stream", "one table, see `table`", form{"type": "object", "minProperties": 1, "additionalProperties": ref("table")}, func(r *reader, m *mappingDraft, n *yaml.Node, where string) {
		r.tables(m, n, where)
	}},
	{"every", "SQL to run between two batches, by period (`{10m: SQL}`): see [remove old rows](tables.md#remove-old-rows)", "", form{"type": "object", "minProperties": 1, "propertyNames": ageForm, "additionalProperties": ref("statements")}, func(r *reader, m *mappingDraft, n *yaml.Node, where string) {
		m.every = r.every(n, where)
	}},
	{"tests", "feeds and expected rows, see below", "", listOf(ref("test")), func(r *reader, m *mappingDraft, n *yaml.Node, where string) { m.cases = r.cases(n, where) }},
}

var unmatched = []mapping.Unmatched{mapping.IgnoreUnmatched, mapping.RejectUnmatched, mapping.FailUnmatched}

var tableKeys = []key[tableDraft]{
	{"from", "tables of the stream to take, TABLE or SCHEMA.TABLE; `*` matches any text, `?` any character", "the table's own name", namesForm, func(r *reader, t *tableDraft, n *yaml.Node, where string) { t.From = r.names(n, where) }},
	{"when", "messages that the table takes; in a child table, elements", "all; with an envelope, all of this table", ref("when"), func(r *reader, t *tableDraft, n *yaml.Node, where string) { t.When = r.when(n, where) }},
	{"row", "path of the object that is the row, or `PATH as json_text` if a string contains the object; without the object there is no row", "the message", pathForm, func(r *reader, t *tableDraft, n *yaml.Node, where string) {
		v, ok := r.text(n, where)
		if !ok {
			return
		}
		var err error
		if t.Row, t.RowInText, err = mapping.ParseRow(v); err != nil {
			r.fault(pos(n), where, "%v", err)
		}
	}},
	{"each", "path of an array or object: each element is a row", "", pathForm, func(r *reader, t *tableDraft, n *yaml.Node, where string) { t.Each = r.path(n, where) }},
	{"of", "parent table: `each` is in its row, and deleting that row deletes these", "", nameForm, func(r *reader, t *tableDraft, n *yaml.Node, where string) { t.Of = r.name(n, where) }},
	{"set", "`replace`: the array is the complete set of rows; `merge`: its elements are updates", "replace", enum(mapping.ReplaceSet, mapping.MergeSet), func(r *reader, t *tableDraft, n *yaml.Node, where string) {
		t.Set = choice(r, n, where, mapping.ReplaceSet, mapping.MergeSet)
	}},
	{"parent", "new names for the parent's columns, such as `{id: order_id}`", "", form{"type": "object", "additionalProperties": nameForm}, func(r *reader, t *tableDraft, n *yaml.Node, where string) {
		t.Parent = map[string]string{}
		r.pairs(n, where, asIs, func(_ *yaml.Node, name string, value *yaml.Node) {
			t.Parent[name] = r.name(value, join(where, name))
		})
	}},
	{"key", "columns that identify a row; in a child, after the parent's key. `none`: each message is a new row", "the top-level `key`; of `'*'` the stream's key; else the existing table's primary key, the stream's key, or `id`", namesForm, func(r *reader, t *tableDraft, n *yaml.Node, where string) {
		if t.Key = r.names(n, where); n.Kind == yaml.ScalarNode && n.Value == NoKey {
			t.Key = []string{}
		}
	}},
	{"id", "name of an integer key that the database generates", "", nameForm, func(r *reader, t *tableDraft, n *yaml.Node, where string) { t.ID = r.name(n, where) }},
	{"columns", "columns and their sources; with `unknown_fields: add` you can leave out the key", "all fields by their names", form{"type": "object", "minProperties": 1, "additionalProperties": ref("column")}, func(r *reader, t *tableDraft, n *yaml.Node, where string) {
		if n.Kind == yaml.MappingNode && len(n.Content) == 0 {
			r.fault(pos(n), where, "no column is named: leave columns out to take all fields")
		}
		r.pairs(n, where, asIs, func(at *yaml.Node, name string, value *yaml.Node) {
			if name == "" {
				r.fault(pos(at), where, "the name of a column is empty")
			}
			from, function := r.column(value, name, join(where, name))
			t.Columns = append(t.Columns, mapping.Column{Pos: pos(at), Name: name, From: from})
			if function == merge.Last {
				return
			}
			if t.Merge == nil {
				t.Merge = map[string]merge.Function{}
			}
			t.Merge[name] = function
		})
	}},
	{"type", "type of columns that name none", "auto", typeForm, func(r *reader, t *tableDraft, n *yaml.Node, where string) { t.Type = r.columnType(n, where) }},
	{"unknown_fields", "fields that no column takes: `ignore` them, `add` columns, or `reject` the message", "ignore with `columns`, else the top-level `unknown_fields`", enum(rests...), func(r *reader, t *tableDraft, n *yaml.Node, where string) {
		t.UnknownFields = choice(r, n, where, rests...)
	}},
	{"on_create", "SQL to run when weir creates the table: one statement, a list, or either by database (`postgres: […]`)", "", ref("statements"), func(r *reader, t *tableDraft, n *yaml.Node, where string) {
		t.OnCreate = r.statements(n, where)
	}},
	{"delete_when", "messages that delete their row; in a child table, elements", "the top-level `delete_when`; in a child never", ref("when"), func(r *reader, t *tableDraft, n *yaml.Node, where string) { t.DeleteWhen = r.when(n, where) }},
	{"on_delete", "what a delete does: `delete` removes the row; `{mark: COLUMN}` keeps it and sets the column to true; `row`, with `key: none`, inserts it once more", "delete", ref("on_delete"), func(r *reader, t *tableDraft, n *yaml.Node, where string) { t.OnDelete = r.onDelete(n, where) }},
	{"null", "`clear`: null sets NULL; `keep`: null counts as absent", "the top-level `null`", enum(fold.ClearNull, fold.KeepNull), func(r *reader, t *tableDraft, n *yaml.Node, where string) {
		t.Null = choice(r, n, where, fold.ClearNull, fold.KeepNull)
	}},
	{"bad_values", "values that their column cannot hold: `reject` the message, or count them as `null`", "the top-level `bad_values`", enum(fold.RejectBad, fold.NullBad), func(r *reader, t *tableDraft, n *yaml.Node, where string) {
		t.BadValues = choice(r, n, where, fold.RejectBad, fold.NullBad)
	}},
	{"fill_only", "whether to write only where the row has NULL", "the top-level `fill_only`", boolForm, func(r *reader, t *tableDraft, n *yaml.Node, where string) { t.FillOnly = r.boolean(n, where) }},
	{"version_field", "path of the version", "the top-level `version_field`; in a child the parent's", pathForm, func(r *reader, t *tableDraft, n *yaml.Node, where string) { t.Version = r.path(n, where) }},
	{"version_scope", "what has a version: each `column`, or the `row`", "the top-level `version_scope`; in a child the parent's", enum(fold.ColumnScope, fold.RowScope), func(r *reader, t *tableDraft, n *yaml.Node, where string) {
		t.Scope = choice(r, n, where, fold.ColumnScope, fold.RowScope)
	}},
	{"max_columns", "most columns that `unknown_fields: add` adds", "the top-level `max_columns`", countForm(0), func(r *reader, t *tableDraft, n *yaml.Node, where string) { r.number(n, where, 0, &t.MaxColumns) }},
}

// Values of on_delete.
const removeRow, insertRow = "delete", "row"

var onDeleteWords = []string{removeRow, insertRow}

var onDeleteKeys = []key[mapping.OnDelete]{
	{"mark", "column that is true in deleted rows, false in others", "", nameForm, func(r *reader, o *mapping.OnDelete, n *yaml.Node, where string) { o.Mark = r.name(n, where) }},
}

// onDelete reads what happens to a row that a message deletes.
func (r *reader) onDelete(n *yaml.Node, where string) (o mapping.OnDelete) {
	if n.Kind != yaml.MappingNode {
		o.Insert = choice(r, n, where, onDeleteWords...) == insertRow
		return o
	}
	if given := readKeys(r, n, where, onDeleteKeys, &o); given["mark"] == nil {
		r.fault(pos(n), where, "mark is missing: the column that is true in rows that the source deleted")
	}
	return o
}

var rests = []fold.UnknownFields{fold.IgnoreUnknown, fold.AddUnknown, fold.RejectUnknown}

// every reads SQL by period.
func (r *reader) every(n *yaml.Node, where string) (all []mapping.PeriodicSQL) {
	if n.Kind == yaml.MappingNode && len(n.Content) == 0 {
		r.fault(pos(n), where, "no period is named, such as 10m")
	}
	r.pairs(n, where, asIs, func(at *yaml.Node, name string, value *yaml.Node) {
		e := mapping.PeriodicSQL{Period: r.duration(at, where), Statements: r.statements(value, join(where, name))}
		if slices.ContainsFunc(all, func(other mapping.PeriodicSQL) bool { return other.Period == e.Period && e.Period > 0 }) {
			r.fault(pos(at), where, "%s is already set: name all its statements in one list", name)
		}
		all = append(all, e)
	})
	return all
}

// statements reads SQL: a statement or a list, or these by database.
func (r *reader) statements(n *yaml.Node, where string) (all []mapping.Statement) {
	list := func(n *yaml.Node, where, database string) {
		items := []*yaml.Node{n}
		if n.Kind != yaml.ScalarNode {
			items = r.items(n, where, "SQL statements")
		}
		for _, item := range items {
			all = append(all, mapping.Statement{Database: database, SQL: r.name(item, where)})
		}
	}
	if n.Kind != yaml.MappingNode {
		list(n, where, "")
		return all
	}
	if len(n.Content) == 0 {
		r.fault(pos(n), where, "no database is named: %s", Either(r.databases))
	}
	r.pairs(n, where, asIs, func(at *yaml.Node, name string, value *yaml.Node) {
		if !slices.Contains(r.databases, name) {
			r.fault(pos(at), where, "%q must be %s%s", name, Either(r.databases), DidYouMean(name, r.databases))
		}
		list(value, join(where, name), name)
	})
	return all
}

// tables reads the tables. They inherit from the top of the file.
func (r *reader) tables(m *mappingDraft, n *yaml.Node, where string) {
	if n.Kind == yaml.MappingNode && len(n.Content) == 0 {
		r.fault(pos(n), where, "no table is named")
	}
	r.pairs(n, where, asIs, func(at *yaml.Node, name string, value *yaml.Node) {
		t := &tableDraft{where: join(where, name)}
		t.Pos, t.Name = pos(at), name
		if strings.Contains("."+name+".", "..") && !strings.Contains(name, `"`) {
			r.fault(t.Pos, where, "%q is not the name of a table: NAME or SCHEMA.NAME", name)
		}
		if t.given = map[string]*yaml.Node{}; !isNull(value) {
			t.given = readKeys(r, value, t.where, tableKeys, t)
		}
		m.tables = append(m.tables, t)
	})
}

// inherit adds to tables what they inherit from the top of the file, and defaults.
func (r *reader) inherit(m *mappingDraft, deleteWhen paths.When, version paths.Path) {
	for _, t := range m.tables {
		o := &m.defaults
		leave := func(name string) bool { return t.given[name] == nil }
		if leave("key") && !t.child() {
			if t.Key = o.Key; o.Key == nil {
				t.Key, t.KeyByDefault = []string{mapping.DefaultKey}, true
			}
		}
		if leave("null") {
			t.Null = o.Null
		}
		if leave("bad_values") {
			t.BadValues = o.BadValues
		}
		if leave("fill_only") {
			t.FillOnly = o.FillOnly
		}
		if leave("version_field") && (!t.child() || t.replaced()) { // otherwise it is the parent's
			t.Version = version
		}
		if leave("version_scope") && t.Version.Base != paths.NoBase {
			t.Scope = o.Scope
		}
		if leave("delete_when") && !t.child() {
			t.DeleteWhen = deleteWhen
		}
		if leave("max_columns") {
			t.MaxColumns = o.MaxColumns
		}
		if leave("type") {
			t.Type = cast.Type{Kind: cast.Auto}
		}
		if leave("set") && t.child() {
			t.Set = mapping.ReplaceSet
		}
		if leave("unknown_fields") {
			if t.UnknownFields = o.UnknownFields; t.Columns != nil {
				t.UnknownFields = fold.IgnoreUnknown
			}
		}
		t.keepKey()
	}
}

// keepKey adds the key columns to the others if unknown fields become columns, so they need not be named. A field that
// is another column's source is not added.
func (t *tableDraft) keepKey() {
	if t.Columns == nil || t.UnknownFields != fold.AddUnknown || t.IsStar() {
		return
	}
	var key []mapping.Column
	for _, k := range t.Key {
		from := paths.FieldPath(k)
		has := func(col mapping.Column) bool {
			return col.Name == k || slices.ContainsFunc(col.From, func(s mapping.Source) bool { return s.From.Base == from.Base && slices.Equal(s.From.Steps, from.Steps) })
		}
		if k != t.ID && !slices.ContainsFunc(t.Columns, has) {
			key = append(key, mapping.Column{Pos: t.place("key"), Name: k, From: []mapping.Source{{From: from}}})
		}
	}
	t.Columns = slices.Concat(key, t.Columns)
}
