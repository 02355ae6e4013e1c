package sink

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/fold/schema"
)

// CreateTable returns a CREATE TABLE statement. name is a quoted identifier, columns and constraints are SQL, and
// options follow the closing parenthesis.
func CreateTable(name string, columns, constraints []string, options string) string {
	return "CREATE TABLE " + name + " (\n  " + strings.Join(slices.Concat(columns, constraints), ",\n  ") + "\n)" + options
}

// Constraints returns the constraints of a table that weir creates. quote and named quote the names of columns and of
// tables.
func Constraints(t *schema.Table, quote, named func(name string) string) []string {
	unique := "PRIMARY KEY"
	if t.Surrogate() >= 0 { // that is the primary key
		unique = "UNIQUE"
	}
	var all []string
	if !t.Appends() {
		all = append(all, unique+" ("+NameList(t.KeyColumns(), quote)+")")
	}
	for i := range t.ForeignKeys {
		all = append(all, ForeignKey(&t.ForeignKeys[i], quote, named))
	}
	return all
}

// ForeignKey returns SQL for a foreign key constraint.
func ForeignKey(k *schema.ForeignKey, quote, named func(name string) string) string {
	sql := fmt.Sprintf("CONSTRAINT %s FOREIGN KEY (%s) REFERENCES %s (%s)", k.Name, NameList(k.Columns, quote), named(k.Table), NameList(k.To, quote))
	if k.Cascade {
		sql += " ON DELETE CASCADE"
	}
	return sql
}

// NameList returns a list of quoted column names.
func NameList(names []string, quote func(name string) string) string {
	quoted := make([]string, len(names))
	for i := range names {
		quoted[i] = quote(names[i])
	}
	return strings.Join(quoted, ", ")
}

// Plan returns statements to show to the user: create and what follows it; or, if the table exists, those that add its
// new columns. add returns "" for a column whose type is not known yet.
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

// MayCreate returns an error if a missing table must not be created for a batch, because it existed when the batch was
// folded.
func MayCreate(want *schema.Table) error {
	if !want.Made || want.Exists && slices.ContainsFunc(want.Columns, func(c schema.Column) bool { return !c.New }) {
		return DroppedError{Table: want.Name}
	}
	return nil
}

// KeyColumnError returns the error for a column that cannot be part of a key; is says why.
func KeyColumnError(t *schema.Table, c *schema.Column, is string) error {
	return fmt.Errorf("the key column %q of table %q %s; choose another --key", c.Name, t.Name, is)
}

// ReferredBy returns the error for a column whose type cannot change because another table, which the run does not
// write, refers to it and would have to change too.
func ReferredBy(t *schema.Table, r *schema.Referrer, column int) *schema.HeldError {
	return &schema.HeldError{Table: t.Name, Column: r.Columns[column], Why: "table " + r.Table + " refers to it, and this run does not write that table"}
}

// MayEmpty returns an error if rows of another table refer to rows of a table that is to be emptied. emptied reports
// whether a table is emptied with it.
func MayEmpty(t *schema.Table, emptied func(table string) bool) error {
	for _, r := range t.Referrers {
		if !emptied(r.Table) {
			return fmt.Errorf("--restart rebuild empties table %q, but rows of table %s refer to it: sync both with one config file, or drop %[2]s", t.Name, r.Table)
		}
	}
	return nil
}

// Computed describes a generated column in errors.
const Computed = "is computed by the database"

// A NoKeyError reports that a table has no primary key.
type NoKeyError struct{ Table string }

func (e NoKeyError) Error() string {
	return fmt.Sprintf("table %q exists without a primary key, and the stream names none: name the table in a config file, with its key or with key: none", e.Table)
}

// NotUniqueError returns the error for a table that could hold a key twice. The other arguments are SQL for a statement
// that creates a unique index.
func NotUniqueError(t *schema.Table, index, on, key string) error {
	return fmt.Errorf("table %q has no primary key or unique index over exactly %s, so it could hold a key twice; this creates one:\n    CREATE UNIQUE INDEX %s ON %s (%s);",
		t.Name, t.KeyNames(), index, on, key)
}
