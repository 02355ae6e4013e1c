package sink

import (
	"strconv"
	"strings"

	"github.com/weirsync/weir/internal/schema"
)

// A Finder writes the SQL that finds rows by their keys as messages have them. Its queries call their tables weir_1,
// weir_2, …: the name of a table itself would hide an alias of the query around it.
type Finder struct {
	Table func(name string) string // in SQL
	Quote func(name string) string // of a column
	// Equal is the condition that a column of a table has the value at an index of a key.
	Equal func(table, column string, value int) string
}

// Find is the query for what the database knows a row by.
func (f *Finder) Find(l *schema.Lookup) string { return f.FindAll(l, len(l.Parts())) }

// FindAll is Find for all rows whose keys begin with n values.
func (f *Finder) FindAll(l *schema.Lookup, n int) string {
	return "SELECT " + f.Quote(l.Column) + " FROM " + f.Table(l.Table) + " weir_1 WHERE " + f.Where(l.Table, l.Key, l.Above, n)
}

// Where is the condition that the key of a row begins with n values. The database has the key in
// columns of the table, of which above, unless it is nil, finds the first.
func (f *Finder) Where(table string, key []string, above *schema.Lookup, n int) string {
	var all []string
	first := 0
	if above != nil {
		first = len(above.Parts())
		is := " = ("
		if n < first { // there may be several
			is = " IN ("
		}
		all, key = append(all, f.Quote(key[0])+is+f.FindAll(above, min(n, first))+")"), key[1:]
	}
	for i := first; i < n; i++ {
		all = append(all, f.Equal(table, key[i-first], i))
	}
	return strings.Join(all, " AND ")
}

// Parts are queries for the parts of the key, as messages have it, of the row that an expression
// names: the way back of [Finder.Find].
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
