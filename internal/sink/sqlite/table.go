package sqlite

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/sink"
)

// Tables implements [sink.Sink].
func (d *DB) Tables(ctx context.Context, wanted ...sink.TableKey) ([]schema.Table, error) {
	return sink.EachTable(wanted, func(_ int, w sink.TableKey) (schema.Table, error) { return d.table(ctx, w.Name, w.Key) })
}

func (d *DB) table(ctx context.Context, name string, key []string) (schema.Table, error) {
	if l := strings.ToLower(name); strings.HasPrefix(l, "sqlite_") || strings.HasPrefix(l, "weir_") {
		return schema.Table{}, fmt.Errorf("a table cannot be named %q: such names are reserved for SQLite and weir", name)
	}
	if err := d.usable(ctx); err != nil {
		return schema.Table{}, err
	}
	var t *table
	err := d.polling(ctx, func() error {
		return d.c.snapshot(func() (err error) { // another run may be adding or widening columns
			t, err = d.readTable(ctx, name, key)
			return err
		})
	})
	if err == nil || errors.As(err, new(sink.KeyError)) {
		d.tables[lower(t.Name)] = t
	}
	t.FullName = lower(t.Name)
	return t.Table, d.explain(err)
}

// lastRead returns a batch's table as it was last read.
func (d *DB) lastRead(b *fold.Batch) *table {
	if t := d.tables[lower(b.Table.Name)]; t != nil {
		return t
	}
	return &table{Table: schema.Table{Name: b.Table.Name}, key: b.Table.KeyColumns(), version: unread}
}

func (d *DB) readTable(ctx context.Context, name string, key []string) (*table, error) {
	t := &table{Table: schema.Table{Name: name}, key: key, stuck: map[string]string{}}
	if was := d.tables[lower(name)]; was != nil {
		t.stuck = was.stuck
	}
	version, err := d.c.scalar("PRAGMA schema_version")
	if err != nil {
		return t, err
	}
	t.version = version.int
	kind, sql, triggers := "", "", false
	err = d.c.query("SELECT l.type, l.strict, l.name, s.sql, l.wr, EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = l.name COLLATE NOCASE)"+
		" FROM pragma_table_list l LEFT JOIN sqlite_schema s ON s.name = l.name WHERE l.schema = 'main' AND l.name = ? COLLATE NOCASE",
		func(s *stmt) error {
			kind, t.Strict, t.Name, sql, t.rowless, triggers = s.text(0), s.int(1) != 0, s.text(2), s.text(3), s.int(4) != 0, s.int(5) != 0
			return nil
		}, text(name))
	if err != nil {
		return t, err
	}
	if t.Writers, err = d.Writers(ctx, lower(t.Name)); err != nil || kind == "" {
		return t, err
	}
	if kind != "table" {
		return t, fmt.Errorf("%q is a %s, not a table: weir writes only to tables", t.Name, kind)
	}
	t.Exists = true
	defaults, primary, pk := false, []string(nil), map[int]string{}
	err = d.c.query("SELECT name, type, \"notnull\", dflt_value, pk, hidden FROM pragma_table_xinfo(?)", func(s *stmt) error {
		c := schema.Column{Name: s.text(0), Decl: s.text(1), NotNull: s.int(2) != 0,
			Default: s.text(3), Generated: s.int(5) == 2 || s.int(5) == 3}
		if strings.EqualFold(c.Default, "NULL") {
			c.Default = ""
		}
		c.Type = affinity(c.Decl, t.Strict)
		c.Finite = t.Strict // NaN and infinities are stored as text
		c.Decimal = c.Type == schema.Affine && slices.ContainsFunc([]string{"DEC", "NUM"}, func(w string) bool { return strings.Contains(strings.ToUpper(c.Decl), w) })
		c.HoldsTime = c.Type == schema.Text || c.Type == schema.Any || c.Type == schema.Affine
		defaults = defaults || c.Default != ""
		if s.int(4) > 0 {
			primary, pk[len(t.Columns)] = append(primary, c.Name), c.Name
		}
		t.Columns = append(t.Columns, c)
		return nil
	}, text(t.Name))
	if err != nil {
		return t, err
	}
	// The mark may outlive a table. A table that weir created starts like its CREATE statement.
	ours := strings.HasPrefix(sql, "CREATE TABLE "+quote(t.Name)+" (\n  ")
	if err := d.readMarks(ctx, t, ours); err != nil {
		return t, err
	}
	missing := func(err error) (*table, error) {
		if !t.Made {
			return t, err
		}
		t.Table = schema.Table{Name: t.Name, Writers: t.Writers}
		return t, sink.KeyError{Err: err}
	}
	if t.key == nil {
		if t.key = primary; t.key == nil {
			return t, sink.NoKeyError{Table: t.Name}
		}
	}
	if t.Key, err = caps.FindKey(&t.Table, t.key, primary); err != nil {
		return missing(err)
	}
	if t.Appends() && t.Made && primary != nil {
		return missing(sink.KeyedError(&t.Table, primary))
	}
	constrained, err := d.readKey(t, pk)
	if err != nil {
		return missing(err)
	}
	linked, err := d.readKeys(t)
	if err != nil {
		return t, err
	}
	sql = t.withoutOwnConstraints(sql)
	// If the word is only part of a name, lines are kept unnecessarily.
	has := func(word string) bool { return strings.Contains(strings.ToUpper(sql), word) }
	ruled := linked || triggers || t.Strict || defaults || has("CHECK") ||
		slices.ContainsFunc(t.Columns, func(c schema.Column) bool { return !c.Serial && (c.Generated || c.NotNull && !c.Key) })
	t.HasConstraints = ruled || constrained
	// A table to which others added constraints, or what a copy would lose, is no longer weir's own: it is used
	// unchanged.
	ruled = ruled || has("COLLATE")
	t.Made, t.Ruled = t.Made && !ruled, t.Made && ruled
	if t.marks != "" {
		err = t.findOwnColumns()
	}
	return t, err
}

// An index is an index of a table.
type index struct {
	name                      string
	unique, complete, primary bool
	columns                   map[int]string // with the collation of each
}

// readKey marks the key's columns, and returns an error unless the database enforces that the key is unique. It reports
// whether another index can refuse a row. pk are the columns of the primary key.
func (d *DB) readKey(t *table, pk map[int]string) (constrained bool, err error) {
	var indexes []index
	err = d.c.query(`SELECT l.name, l."unique", l.partial, l.origin = 'pk', x.cid, upper(x.coll) FROM pragma_index_list(?) l, pragma_index_xinfo(l.name) x WHERE x.key = 1`,
		func(s *stmt) error {
			n := slices.IndexFunc(indexes, func(ix index) bool { return ix.name == s.text(0) })
			if n < 0 {
				n = len(indexes)
				indexes = append(indexes, index{s.text(0), s.int(1) != 0, s.int(2) == 0, s.int(3) != 0, map[int]string{}})
			}
			indexes[n].columns[int(s.int(4))] = s.text(5)
			return nil
		}, text(t.Name))
	if err != nil {
		return false, err
	}
	unique := t.isKey(pk)
	// An alias of the row ID has no index.
	if len(pk) == 1 && !unique && !slices.ContainsFunc(indexes, func(ix index) bool { return ix.primary }) {
		for rowid := range pk {
			if slices.Contains(t.Key, rowid) { // it is unique, and the key contains more
				constrained = true
			} else {
				t.Columns[rowid].Serial, t.Columns[rowid].Generated = true, t.Made
				constrained = t.Appends() // a message may have it, and no row is looked up
			}
		}
	}
	var collated map[int]string // the key's columns, in the index that treats most keys as equal
	for _, ix := range indexes {
		if !ix.unique || !ix.complete || !t.isKey(ix.columns) {
			t.indexed = true
			constrained = constrained || ix.unique || !ix.complete || ix.columns[expression] != ""
			continue
		}
		unique = true
		if isBinary(collated) {
			collated = ix.columns
		} else if !isBinary(ix.columns) && !maps.Equal(ix.columns, collated) {
			constrained = true
		}
	}
	for i, coll := range collated {
		// Columns that weir created have no collation.
		if !t.Made || coll != "BINARY" {
			t.Columns[i].Collation = collation(coll)
		}
	}
	for _, i := range t.Key {
		c := &t.Columns[i]
		c.Key = true
		switch name := collationOf(c); name {
		case "", "BINARY", "NOCASE", "RTRIM":
		default:
			return false, sink.KeyColumnError(&t.Table, c, "has the collation "+name+", which weir does not know: it could not tell which keys are equal")
		}
		if c.Generated {
			return false, sink.KeyColumnError(&t.Table, c, sink.Computed)
		}
	}
	if !unique && !t.Appends() {
		return false, sink.NotUniqueError(&t.Table, quote(t.Name+"_key"), quote(t.Name), sink.NameList(t.KeyColumns(), quote))
	}
	return constrained, nil
}

const expression = -2 // the column number of an expression in an index

func (t *table) isKey(columns map[int]string) bool {
	return len(columns) == len(t.Key) && !slices.ContainsFunc(t.Key, func(k int) bool { return columns[k] == "" })
}

func isBinary(collations map[int]string) bool {
	for _, c := range collations {
		if c != "BINARY" {
			return false
		}
	}
	return true
}

// affinity returns the type for a column's declaration, by the rules in section 3.1 of
// https://www.sqlite.org/datatype3.html.
func affinity(decl string, strict bool) schema.Type {
	u := strings.ToUpper(decl)
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(u, w) })
	}
	switch {
	case has("INT"):
		return schema.Int
	case has("CHAR", "CLOB", "TEXT"):
		return schema.Text
	case u == "" || has("BLOB") || strict && u == "ANY":
		return schema.Any
	case has("REAL", "FLOA", "DOUB"):
		return schema.Real
	case u == "BOOL" || u == "BOOLEAN":
		return schema.Bool
	}
	return schema.Affine
}

// declare is the inverse for columns that weir adds. JSON is TEXT because a column declared JSON would convert text
// that looks like a number. SQLite cannot change a column's type, so in tables that others created weir's columns have
// none.
func declare(t *schema.Table, c *schema.Column) string {
	switch {
	case t.Strict:
		return "ANY"
	case c.New && !c.Own && c.Decl != "": // like a column of others
		return c.Decl
	case t.Exists && !t.Made:
		return ""
	}
	switch c.Type {
	case schema.Bool:
		return "BOOLEAN"
	case schema.Int:
		return "INTEGER"
	case schema.Real:
		return "REAL"
	case schema.Text, schema.JSON, schema.Instant, schema.Day, schema.UUID:
		return "TEXT"
	case schema.Bytes:
		return "BLOB"
	}
	return ""
}

func definition(c *schema.Column, decl string) string {
	s := quote(c.Name)
	if decl != "" {
		s += " " + decl
	}
	switch {
	case c.Serial && c.Generated:
		s += " PRIMARY KEY"
	case c.NotNull:
		s += " NOT NULL"
	}
	return s + collate(c)
}

// Create returns the statement with which weir would create a table.
func Create(want *schema.Table) string {
	t := want.Stored()
	decls := make([]string, len(t.Columns))
	for i := range t.Columns {
		decls[i] = declare(&t, &t.Columns[i])
	}
	return create(t.Name, &t, decls)
}

// create is Create with another name and other types.
func create(name string, t *schema.Table, decls []string) string {
	definitions := make([]string, len(decls))
	for i := range decls {
		definitions[i] = definition(&t.Columns[i], decls[i])
	}
	return sink.CreateTable(quote(name), definitions, sink.Constraints(t, quote, quote), "")
}

// Plan is [sink.Driver].Plan.
func Plan(want *schema.Table) []string {
	return sink.Plan(want, Create(want), func(c *schema.Column) string { return addColumn(want, c) })
}

func addColumn(t *schema.Table, c *schema.Column) string {
	return "ALTER TABLE " + quote(t.Name) + " ADD COLUMN " + definition(c, declare(t, c))
}
