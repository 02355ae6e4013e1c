package sink

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/schema"
)

// CreateTable is the statement that makes a table, of the database's columns alone. All names are
// identifiers of SQL; options stand behind it.
func CreateTable(name string, definitions []string, t *schema.Table, quote func(name string) string, options string) string {
	unique := "PRIMARY KEY"
	if t.Surrogate() >= 0 { // that is the primary key
		unique = "UNIQUE"
	}
	return "CREATE TABLE " + name + " (\n  " + strings.Join(definitions, ",\n  ") + ",\n  " + unique + " (" + KeyList(t, quote) + ")\n)" + options
}

// Plan returns, for people, create and what is made with a table, or what adds its new
// columns where it exists; add is "" for a column that waits for its type.
func Plan(want *schema.Table, create string, add func(c *schema.Column) string) (plan []string) {
	if !want.Exists {
		plan = append([]string{create}, want.OnCreate...)
	} else {
		for _, c := range want.Stored().Columns {
			if sql := add(&c); c.New && sql != "" {
				plan = append(plan, sql)
			}
		}
	}
	for i := range plan {
		plan[i] += ";"
	}
	return plan
}

// KeyList lists the columns of a table's key as identifiers of SQL.
func KeyList(t *schema.Table, quote func(name string) string) string {
	names := t.KeyColumns()
	for i := range names {
		names[i] = quote(names[i])
	}
	return strings.Join(names, ", ")
}

// MayCreate reports why a table that is missing must not be made for a batch: it existed
// when the batch was folded.
func MayCreate(want *schema.Table) error {
	if !want.Made || want.Exists && slices.ContainsFunc(want.Columns, func(c schema.Column) bool { return !c.New }) {
		return DroppedError{Table: want.Name}
	}
	return nil
}

// KeyColumnError says why a column cannot be of a key, by what it is.
func KeyColumnError(t *schema.Table, c *schema.Column, is string) error {
	return fmt.Errorf("the key column %q of table %q %s; choose another --key", c.Name, t.Name, is)
}

// Computed is what a generated column is.
const Computed = "is computed by the database"

// NotUniqueError says that a table could hold a key twice. The rest is for the statement
// that makes an index.
func NotUniqueError(t *schema.Table, index, on, key string) error {
	return fmt.Errorf("table %q has no primary key or unique index over exactly %s, so that it could hold a key twice; this makes one:\n    CREATE UNIQUE INDEX %s ON %s (%s);",
		t.Name, t.KeyNames(), index, on, key)
}
