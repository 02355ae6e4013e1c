package sink

import (
	"strconv"
	"strings"

	"github.com/weirsync/weir/internal/fold/schema"
)

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
