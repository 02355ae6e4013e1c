package sqlite

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	lib "modernc.org/sqlite/lib"

	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/sink"
)

// The foreign keys that weir creates.

// readKeys reads the foreign keys from and to a table that weir created, and reports whether there are others.
func (d *DB) readKeys(t *table) (others bool, err error) {
	type foreign struct {
		schema.ForeignKey
		of, sql string
		id      int64
	}
	var all []*foreign
	err = d.c.query("SELECT l.name, s.sql, f.id, f.\"table\", f.\"from\", f.\"to\", f.on_delete FROM pragma_table_list l, pragma_foreign_key_list(l.name) f JOIN sqlite_schema s ON s.type = 'table' AND s.name = l.name"+
		" WHERE l.schema = 'main' AND (l.name = ?1 COLLATE NOCASE OR f.\"table\" = ?1 COLLATE NOCASE) ORDER BY l.name, f.id, f.seq", func(s *stmt) error {
		if n := len(all); n == 0 || all[n-1].of != s.text(0) || all[n-1].id != s.int(2) {
			all = append(all, &foreign{ForeignKey: schema.ForeignKey{Table: s.text(3), Cascade: s.text(6) == "CASCADE"}, of: s.text(0), sql: s.text(1), id: s.int(2)})
		}
		k := all[len(all)-1]
		k.Columns, k.To = append(k.Columns, s.text(4)), append(k.To, s.text(5))
		return nil
	}, text(t.Name))
	for _, k := range all {
		// The pragma does not return the constraint's name.
		for n := 1; k.Name == "" && n <= strings.Count(k.sql, schema.OwnKeys); n++ {
			named := k.ForeignKey
			if named.Name = fmt.Sprint(schema.OwnKeys, n); strings.Contains(k.sql, sink.ForeignKey(&named, quote, quote)) {
				k.ForeignKey = named
			}
		}
		switch {
		case k.Name == "":
			others = true
		case lower(k.of) == lower(t.Name):
			t.ForeignKeys = append(t.ForeignKeys, k.ForeignKey)
		default:
			t.Referrers = append(t.Referrers, schema.Referrer{Table: k.of, Columns: k.To})
		}
	}
	slices.SortFunc(t.ForeignKeys, func(a, b schema.ForeignKey) int {
		return cmp.Or(len(a.Name)-len(b.Name), strings.Compare(a.Name, b.Name))
	})
	return others, err
}

// withoutOwnConstraints removes the constraints that weir created from a table's SQL.
func (t *table) withoutOwnConstraints(sql string) string {
	for i := range t.ForeignKeys {
		sql = strings.Replace(sql, sink.ForeignKey(&t.ForeignKeys[i], quote, quote), "", 1)
	}
	for _, k := range t.Key {
		if c := &t.Columns[k]; collate(c) != "" {
			sql = strings.Replace(sql, definition(c, c.Decl), "", 1)
		}
	}
	return sql
}

// collate returns the collation for a column that weir creates: the same as the column that it refers to.
func collate(c *schema.Column) string {
	name := collationOf(c)
	if name == "" || name == "BINARY" {
		return ""
	}
	return " COLLATE " + name
}

// named returns the table with a name, or nil.
func named(tables []*table, name string) *table {
	at := slices.IndexFunc(tables, func(t *table) bool { return lower(t.Name) == lower(name) })
	if at < 0 {
		return nil
	}
	return tables[at]
}

// referred returns a function that finds the table that a foreign key refers to.
func referred(tables []*table) func(*schema.ForeignKey) *schema.Table {
	return func(k *schema.ForeignKey) *schema.Table {
		if t := named(tables, k.Table); t != nil {
			return &t.Table
		}
		return nil
	}
}

// lags reports whether columns of a table must change to the new types of the columns that they refer to.
func (t *table) lags(tables []*table) bool {
	now := t.Clone()
	return t.Exists && len(now.Follow(&caps.Limits, referred(tables), nil)) > 0
}

// held returns an error if a table outside the flush refers to a column whose type must change.
func (t *table) held(needs *schema.Table, grown []schema.Growth, tables []*table) error {
	for _, g := range grown {
		if g.New || needs.Columns[g.At].Type == g.From {
			continue
		}
		for _, r := range t.Referrers {
			at := slices.IndexFunc(r.Columns, func(name string) bool { return lower(name) == lower(needs.Columns[g.At].Name) })
			if at >= 0 && named(tables, r.Table) == nil {
				held := sink.ReferredBy(&t.Table, &r, at)
				t.stuck[lower(held.Column)] = held.Why
				return sink.ChangedError{Err: held}
			}
		}
	}
	return nil
}

// createWithForeignKeys creates a table. It omits a foreign key if the parent's key has another equality than its
// columns, which SQLite does not accept.
func (d *DB) createWithForeignKeys(t *schema.Table) error {
	if err := d.c.exec(Create(t)); err != nil || len(t.ForeignKeys) == 0 {
		return err
	}
	err := d.c.exec("PRAGMA foreign_key_check(" + quote(t.Name) + ")")
	if !isRefusal(err) {
		return err
	}
	d.opt.Log.Warn(fmt.Sprintf("table %q gets no foreign key: %v", t.Name, err))
	t.ForeignKeys = nil
	if err := d.c.exec("DROP TABLE " + quote(t.Name)); err != nil {
		return err
	}
	return d.c.exec(Create(t))
}

// withoutForeignKeys calls f with foreign keys disabled.
func (d *DB) withoutForeignKeys(f func() error) error {
	if err := d.c.set(lib.SQLITE_DBCONFIG_ENABLE_FKEY, 0); err != nil {
		return err
	}
	err := f()
	return errors.Join(err, d.c.set(lib.SQLITE_DBCONFIG_ENABLE_FKEY, 1))
}
