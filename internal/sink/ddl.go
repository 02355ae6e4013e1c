package sink

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/schema"
)

// CreateTable is the statement that makes a table of columns, those of the database alone, and constraints. All names are
// identifiers of SQL; options stand behind it.
func CreateTable(name string, columns, constraints []string, options string) string {
	return "CREATE TABLE " + name + " (\n  " + strings.Join(slices.Concat(columns, constraints), ",\n  ") + "\n)" + options
}

// Constraints are those that a table gets that weir makes. quote and named make the name of a column,
// and of a table, an identifier of SQL.
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

// ForeignKey is the constraint for one.
func ForeignKey(k *schema.ForeignKey, quote, named func(name string) string) string {
	sql := fmt.Sprintf("CONSTRAINT %s FOREIGN KEY (%s) REFERENCES %s (%s)", k.Name, NameList(k.Columns, quote), named(k.Table), NameList(k.To, quote))
	if k.Cascade {
		sql += " ON DELETE CASCADE"
	}
	return sql
}

// NameList lists names of columns as identifiers of SQL.
func NameList(names []string, quote func(name string) string) string {
	quoted := make([]string, len(names))
	for i := range names {
		quoted[i] = quote(names[i])
	}
	return strings.Join(quoted, ", ")
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

// ReferredBy says that a column cannot become another one because a table refers to it that the
// run does not write to: it would have to change too.
func ReferredBy(t *schema.Table, r *schema.Referrer, column int) *schema.HeldError {
	return &schema.HeldError{Table: t.Name, Column: r.Columns[column], Why: "table " + r.Table + " refers to it, and is none of this run's"}
}

// MayEmpty reports that the rows of another table refer to those of a table that is to be emptied.
// emptied tells which others are emptied with it.
func MayEmpty(t *schema.Table, emptied func(table string) bool) error {
	for _, r := range t.Referrers {
		if !emptied(r.Table) {
			return fmt.Errorf("--restart rebuild empties table %q, to whose rows those of table %s refer: keep both by one config file, or drop %[2]s", t.Name, r.Table)
		}
	}
	return nil
}

// Computed is what a generated column is.
const Computed = "is computed by the database"

// A NoKeyError says that a table has no primary key.
type NoKeyError struct{ Table string }

func (e NoKeyError) Error() string {
	return fmt.Sprintf("table %q exists without a primary key, and the stream names none: name the table in a config file, with its key or with key: none", e.Table)
}

// NotUniqueError says that a table could hold a key twice. The rest is for the statement
// that makes an index.
func NotUniqueError(t *schema.Table, index, on, key string) error {
	return fmt.Errorf("table %q has no primary key or unique index over exactly %s, so that it could hold a key twice; this makes one:\n    CREATE UNIQUE INDEX %s ON %s (%s);",
		t.Name, t.KeyNames(), index, on, key)
}
