package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	lib "modernc.org/sqlite/lib"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/sink"
)

// fit adapts a table to a batch, inside the flush's transaction, and returns it as it then is. The database's state
// counts: others may have changed the table since it was read. parents are the tables that it may refer to, in their
// current state.
func (d *DB) fit(ctx context.Context, b *fold.Batch, was *table, parents []*table) (*table, error) {
	want := &b.Table
	version, err := d.c.scalar("PRAGMA schema_version")
	if err != nil {
		return nil, err
	}
	marks, err := d.Marks(ctx, columnsMark(want.Name))
	if err != nil {
		return nil, err
	}
	have := was
	if version.int != was.version || marks[0] != was.marks {
		if have, err = d.readTable(ctx, want.Name, was.key); err != nil {
			return nil, err
		}
		if err := sink.CheckSame(&was.Table, &have.Table); err != nil {
			return nil, err
		}
		if was.Exists && was.isAltered(have) {
			return nil, sink.ChangedError{Err: fmt.Errorf("columns of table %q were altered while weir wrote to it", have.Name)}
		}
	}
	if !have.Exists {
		return d.create(ctx, want, was.key, parents)
	}
	needs := have.Clone()
	grown, err := sink.Grow(&needs, b)
	if err != nil {
		return have, err
	}
	grown = needs.Follow(&caps.Limits, referred(parents), grown)
	lost := strings.Contains(have.ID, lostMark)
	if len(grown) == 0 && !lost {
		return have, nil
	}
	if lost { // the run rereads them; what other jobs had written there is gone
		if err := d.SetMark(ctx, madeMark(have.Name), sink.NewTableID()); err != nil {
			return nil, err
		}
	}
	if err := d.addColumns(&have.Table, &needs, grown); err != nil {
		return nil, err
	}
	for _, g := range grown {
		if c := &needs.Columns[g.At]; g.New {
			if c.Stamp != schema.NoStamp {
				// Without a time, existing rows would count as the oldest.
				if err := d.updateQuietly("UPDATE "+quote(have.Name)+" SET "+quote(c.Name)+" = ?", text(b.Time.UTC().Format(stampFormat))); err != nil {
					return nil, err
				}
			}
		}
	}
	if err := have.held(&needs, grown, parents); err != nil {
		return nil, err
	}
	if err := d.widen(have, &needs, grown); err != nil {
		return nil, err
	}
	if err := d.SetMark(ctx, columnsMark(needs.Name), needs.Marks()); err != nil {
		return nil, err
	}
	return d.readTable(ctx, want.Name, have.key)
}

// isAltered reports whether others changed a column that a batch relies on, or added one to their table: it may be a
// field that was ignored. The batch itself finds out what was dropped.
func (t *table) isAltered(now *table) bool {
	for i := range now.Columns {
		c := &now.Columns[i]
		at := slices.IndexFunc(t.Columns, func(was schema.Column) bool { return was.Name == c.Name })
		switch {
		case c.Own || c.Typed || at >= 0 && t.Columns[at].Own:
		case at < 0 && now.Made:
		case at < 0:
			return true
		default:
			was := &t.Columns[at]
			if was.Type != c.Type || was.Generated != c.Generated || was.Default != c.Default || was.ValueRules != c.ValueRules {
				return true
			}
		}
	}
	return false
}

func (d *DB) create(ctx context.Context, want *schema.Table, key []string, parents []*table) (*table, error) {
	if err := sink.MayCreate(want); err != nil {
		return nil, err
	}
	t := want.Clone()
	t.Follow(&caps.Limits, referred(parents), nil)
	if err := d.createWithForeignKeys(&t); err != nil {
		return nil, err
	}
	for _, sql := range want.OnCreate {
		if err := d.c.execTheirs(ctx, sql); err != nil {
			return nil, sink.OnCreateError(want.Name, err)
		}
	}
	// A former table of that name may have left them.
	if _, err := d.DropVersions(ctx, lower(want.Name)); err != nil {
		return nil, err
	}
	if err := errors.Join(d.SetMark(ctx, madeMark(want.Name), sink.NewTableID()), d.SetMark(ctx, columnsMark(want.Name), t.Marks())); err != nil {
		return nil, err
	}
	return d.readTable(ctx, want.Name, key)
}

// findOwnColumns finds the columns that weir added to a table. Without a declared type, they may be in a table that
// others created. A table of weir's that has lost columns gets another ID.
func (t *table) findOwnColumns() error {
	err := t.Own(t.marks, func(c, own *schema.Column) bool {
		if t.Strict {
			return strings.EqualFold(c.Decl, "ANY")
		}
		return c.Decl == "" || t.Made && c.Decl == declare(&t.Table, own)
	}, func(c *schema.Column) string { return t.stuck[lower(c.Name)] })
	for _, a := range t.Altered {
		if a.Now == "" && (t.Made || t.Ruled) {
			t.ID += fmt.Sprintf("%s%q", lostMark, a.Column)
		}
	}
	return err
}

// widen changes the types of weir's columns. It records those that cannot change because something depends on them.
func (d *DB) widen(have *table, needs *schema.Table, grown []schema.Growth) error {
	grown = slices.DeleteFunc(slices.Clone(grown), func(g schema.Growth) bool { return g.New || needs.Columns[g.At].Type == g.From })
	err := d.c.undoOnError(func() error { return d.convert(&have.Table, needs, grown) })
	if !isRefusal(err) {
		return err
	}
	held := &schema.HeldError{Table: have.Name, Why: err.Error()}
	for i := range grown {
		name := needs.Columns[grown[i].At].Name
		if len(grown) == 1 || isRefusal(d.c.undoOnError(func() error { return d.convert(&have.Table, needs, grown[i:i+1]) })) {
			have.stuck[lower(name)], held.Column = err.Error(), name
		}
	}
	if held.Column == "" {
		return fmt.Errorf("widening columns of %q: %w", have.Name, err)
	}
	return sink.ChangedError{Err: held}
}

// convert changes the types of columns, and converts their values if the new type needs it.
func (d *DB) convert(have, needs *schema.Table, columns []schema.Growth) error {
	decls, from := declared(have)
	redeclared := false
	var sets, where []string
	for _, g := range columns {
		c := &needs.Columns[g.At]
		if have.Made && decls[g.At] != "" {
			decls[g.At] = declare(have, c)
			redeclared = redeclared || decls[g.At] != have.Columns[g.At].Decl
		}
		if as := converted(quote(c.Name), g.From, c.Type); as != "" {
			sets, where = append(sets, quote(c.Name)+" = "+as), append(where, quote(c.Name)+" IS NOT NULL")
			from[g.At] = as
		}
	}
	switch {
	case redeclared:
		return d.rebuild(needs, decls, from)
	case len(sets) > 0:
		return d.updateQuietly("UPDATE " + quote(have.Name) + " SET " + strings.Join(sets, ", ") + " WHERE " + strings.Join(where, " OR "))
	}
	return nil
}

// addColumns adds the new columns. ALTER TABLE does not accept a name of the row ID (from SQLite 3.54 on), but CREATE
// TABLE does.
func (d *DB) addColumns(have, needs *schema.Table, grown []schema.Growth) error {
	rebuild := false
	for _, g := range grown {
		c := &needs.Columns[g.At]
		switch {
		case !g.New:
			continue
		case isRowID(c.Name) && have.Made:
			rebuild = true
			continue
		case isRowID(c.Name):
			return fmt.Errorf("table %q cannot get a column %q: SQLite accepts that name only when a table is created (rename the field, or --unknown-fields ignore)", have.Name, c.Name)
		}
		if err := d.c.exec(addColumn(have, c)); err != nil {
			return fmt.Errorf("adding column %q: %w", c.Name, err)
		}
	}
	if !rebuild {
		return nil
	}
	decls, from := declared(have)
	return d.rebuild(needs, decls, from)
}

// isRowID reports whether a name is one of SQLite's names for the row ID.
func isRowID(name string) bool {
	return slices.Contains([]string{"rowid", "oid", "_rowid_"}, lower(name))
}

// declared returns the declarations of a table's columns, and SQL for their values.
func declared(have *schema.Table) (decls, values []string) {
	for i := range have.Columns {
		decls, values = append(decls, have.Columns[i].Decl), append(values, quote(have.Columns[i].Name))
	}
	return decls, values
}

// updateQuietly runs an update that observers must not notice: no trigger fires.
func (d *DB) updateQuietly(sql string, args ...value) error {
	if err := d.c.set(lib.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0); err != nil {
		return err
	}
	err := d.c.exec(sql, args...)
	return errors.Join(err, d.c.set(lib.SQLITE_DBCONFIG_ENABLE_TRIGGER, 1))
}

// rebuild changes the declarations of columns in a table that weir created. SQLite cannot alter a column, so the rows
// are copied, as in section 7 of https://www.sqlite.org/lang_altertable.html. This happens at most three times in a
// column's life.
func (d *DB) rebuild(t *schema.Table, decls, from []string) error {
	var again []string // CREATE INDEX statements of added indexes
	err := d.c.query("SELECT sql FROM sqlite_schema WHERE tbl_name = ? COLLATE NOCASE AND type = 'index' AND sql IS NOT NULL",
		func(s *stmt) error { again = append(again, s.text(0)); return nil }, text(t.Name))
	if err != nil {
		return err
	}
	for i := len(decls); i < len(t.Columns); i++ { // just added
		value := quote(t.Columns[i].Name)
		if isRowID(t.Columns[i].Name) { // not added yet, and the name means the row ID
			value = "NULL"
		}
		decls, from = append(decls, declare(t, &t.Columns[i])), append(from, value)
	}
	temp := "weir_new_" + t.Name
	return d.withoutForeignKeys(func() error { // otherwise rows that refer to the table would be deleted with it
		return d.c.execAll(append([]string{
			create(temp, t, decls),
			fmt.Sprintf("INSERT INTO %s SELECT %s FROM %s", quote(temp), strings.Join(from, ", "), quote(t.Name)),
			"DROP TABLE " + quote(t.Name),
			"PRAGMA legacy_alter_table=ON", // leaves views unchanged
			fmt.Sprintf("ALTER TABLE %s RENAME TO %s", quote(temp), quote(t.Name)),
			"PRAGMA legacy_alter_table=OFF",
		}, again...)...)
	})
}

// converted returns SQL that converts a column's value to another type, or "" if it is unchanged.
func converted(col string, from, to schema.Type) string {
	switch {
	case from == schema.Any || from == schema.JSON:
		return ""
	case to == schema.Real:
		return "CAST(" + col + " AS REAL)"
	case from == schema.Real && to == schema.Number: // a 1 among them is no longer 1.0
		return "CASE WHEN abs(" + col + ") <= 9007199254740992 AND CAST(" + col + " AS INTEGER) = " + col + " THEN CAST(" + col + " AS INTEGER) ELSE " + col + " END"
	case to != schema.Text:
		return ""
	case from == schema.Bool:
		return "CASE " + col + " WHEN 1 THEN 'true' WHEN 0 THEN 'false' END"
	}
	return "CASE typeof(" + col + ") WHEN 'real' THEN " + shortest(col) + " ELSE CAST(" + col + " AS TEXT) END"
}
