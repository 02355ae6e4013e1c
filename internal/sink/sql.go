package sink

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"slices"
	"strconv"
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
	return fmt.Errorf("the key column %q of table %q %s; choose another key", c.Name, t.Name, is)
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

// A Finder generates SQL that finds rows by their keys as in messages. Its queries use the table aliases weir_1,
// weir_2, …, because a table's own name could hide an alias of the enclosing query.
type Finder struct {
	Table func(name string) string // quoted table name
	Quote func(name string) string // quoted column name
	// Equal returns the condition that a table's column equals the key's value at an index.
	Equal func(table, column string, value int) string
}

// Find returns a query for a row's key in the database.
func (f *Finder) Find(l *schema.Lookup) string { return f.FindAll(l, len(l.Parts())) }

// FindAll is Find for all rows whose keys begin with n values.
func (f *Finder) FindAll(l *schema.Lookup, n int) string {
	return "SELECT " + f.Quote(l.Column) + " FROM " + f.Table(l.Table) + " weir_1 WHERE " + f.Where(l.Table, l.Key, l.Above, n)
}

// Where returns the condition that a row's key begins with n values. key are the columns with the key in the database.
// If parent is not nil, it finds the first one.
func (f *Finder) Where(table string, key []string, parent *schema.Lookup, n int) string {
	var all []string
	first := 0
	if parent != nil {
		first = len(parent.Parts())
		is := " = ("
		if n < first { // there may be several
			is = " IN ("
		}
		all, key = append(all, f.Quote(key[0])+is+f.FindAll(parent, min(n, first))+")"), key[1:]
	}
	for i := first; i < n; i++ {
		all = append(all, f.Equal(table, key[i-first], i))
	}
	return strings.Join(all, " AND ")
}

// Parts returns queries for the parts of a row's key as in messages. named is an expression for the row. This is the
// inverse of [Finder.Find].
func (f *Finder) Parts(l *schema.Lookup, named string) []string { return f.parts(l, named, 1) }

// parts is Parts inside depth-1 other queries.
func (f *Finder) parts(l *schema.Lookup, named string, depth int) (parts []string) {
	alias := "weir_" + strconv.Itoa(depth)
	column := func(name string) string { return alias + "." + f.Quote(name) }
	key := l.Key
	if l.Above != nil {
		parts, key = f.parts(l.Above, column(key[0]), depth+1), key[1:]
	}
	for _, name := range key {
		parts = append(parts, column(name))
	}
	for i := range parts {
		parts[i] = "(SELECT " + parts[i] + " FROM " + f.Table(l.Table) + " " + alias + " WHERE " + column(l.Column) + " = " + named + ")"
	}
	return parts
}

// KeyedError returns the error for a table that weir created with a primary key, which rows without a key may violate.
func KeyedError(t *schema.Table, primary []string) error {
	return fmt.Errorf("table %q was created with the key %s: remove key none, or recreate the table without a key with --restart rebuild", t.Name, strings.Join(primary, ","))
}

// A RowSum is a checksum of rows in any order. Within one process, two are equal if their rows are equal.
type RowSum struct {
	Rows int64
	sum  uint64 // of the rows' hashes
}

var sumSeed = maphash.MakeSeed()

// Add adds a row, given as the texts of its columns; nil is NULL. Numbers and JSON are hashed by value, because a
// widened column may spell them differently from the message.
func (s *RowSum) Add(texts [][]byte) {
	var row []byte
	for _, text := range texts {
		at := len(row)
		row = append(row, 0, 0, 0, 0, 0)
		if text == nil {
			continue
		}
		row[at] = 1
		row = schema.AppendByValue(row, text)
		binary.BigEndian.PutUint32(row[at+1:], uint32(len(row)-at))
	}
	s.Rows++
	s.sum += maphash.Bytes(sumSeed, row)
}
