package testmirror

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// A column of a source.
type column struct {
	name, kind string
	values     []string // SQL of possible values
	source     string   // SQL for its value as text in the source, "" for the column itself,
	mirror     string   // and in the mirror
}

// A table of a source.
type table struct {
	name    string
	key     int // number of key columns, which are the first
	columns []column
	more    string // rest of its CREATE TABLE
	mark    string // SQL of the key of a row that marks how far the mirror has got; N is a number
}

// create returns the table's CREATE TABLE.
func (t *table) create(where string) string {
	var all []string
	for _, c := range t.columns {
		all = append(all, c.name+" "+c.kind)
	}
	if t.key > 0 {
		all = append(all, "PRIMARY KEY ("+strings.Join(t.names()[:t.key], ", ")+")")
	}
	return "CREATE TABLE " + where + t.name + " (" + strings.Join(all, ", ") + t.more + ")"
}

func (t *table) marked(n int) string { return strings.ReplaceAll(t.mark, "N", fmt.Sprint(n)) }

func (t *table) names() (all []string) {
	for _, c := range t.columns {
		all = append(all, c.name)
	}
	return all
}

// expressions returns the key as one text, and each column as text, in the source or in the mirror.
func (t *table) expressions(of func(column) string) (all []string) {
	for _, c := range t.columns {
		all = append(all, of(c))
	}
	key := all[:t.key]
	if t.key == 0 {
		key = all
	}
	var parts []string
	for _, k := range key {
		parts = append(parts, "coalesce("+k+", '-')")
	}
	return append([]string{"concat(" + strings.Join(parts, ", '/', ") + ")"}, all...)
}

// A dialect has the differences between the sources' SQL.
type dialect struct{ insert, conflict, update, remove string }

// A generator makes transactions of random operations.
type generator struct {
	*rand.Rand
	dialect
	tables []*table
	made   int // number of operations so far
}

func (g *generator) any(from []string) string {
	v := from[g.IntN(len(from))]
	return strings.ReplaceAll(v, "RANDOM", fmt.Sprint(g.IntN(1000)))
}

// transactions returns some transactions; one in ten is rolled back.
func (g *generator) transactions(n int) (all []string) {
	for range n {
		var ops []string
		for range 1 + g.IntN(5) {
			ops = append(ops, g.operation())
		}
		end := "COMMIT;"
		if g.IntN(10) == 0 {
			end = "ROLLBACK;"
		}
		all = append(all, "BEGIN; "+strings.Join(ops, "; ")+"; "+end)
	}
	return all
}

func (g *generator) operation() string {
	g.made++
	t := g.tables[g.IntN(len(g.tables))]
	var where, set []string
	for i, c := range t.columns {
		v := g.any(c.values)
		switch {
		case i < t.key:
			where = append(where, c.name+" = "+v)
		case i == t.key || g.IntN(3) > 0:
			set = append(set, c.name+" = "+v)
		}
	}
	of := " WHERE " + strings.Join(where, " AND ")
	switch g.IntN(10) {
	case 0, 1:
		if t.key > 0 {
			return g.remove + " " + t.name + of
		}
	case 2:
		if t.key == 1 {
			return g.update + " " + t.name + " SET " + t.columns[0].name + " = " + g.any(t.columns[0].values) + of
		}
	case 3, 4, 5:
		if t.key > 0 && len(set) > 0 {
			return g.update + " " + t.name + " SET " + strings.Join(set, ", ") + of
		}
	}
	var names, values []string
	for _, assignment := range slices.Concat(where, set) {
		name, value, _ := strings.Cut(assignment, " = ")
		names, values = append(names, name), append(values, value)
	}
	return g.insert + " " + t.name + " (" + strings.Join(names, ", ") + ") VALUES (" + strings.Join(values, ", ") + ")" + g.conflict
}

// numbers returns the numbers of a range as SQL.
func numbers(from, to int) (all []string) {
	for i := from; i <= to; i++ {
		all = append(all, fmt.Sprint(i))
	}
	return all
}
