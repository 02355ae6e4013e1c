package schema

import (
	"slices"
	"strconv"
)

// A ForeignKey says that what a row has in some columns is the key of a row of another table,
// or NULL.
type ForeignKey struct {
	Name    string   // of the constraint; see [Table.AddForeignKey]
	Columns []string // of the table
	Table   string   // the other one's [Table.Name], or another name of it
	To      []string // its columns, in the order of Columns
	// Cascade has the row go with the one that it refers to. Without, that one cannot be deleted.
	Cascade bool
}

// A Referrer is a table with a foreign key to another one.
type Referrer struct {
	Table   string
	Columns []string // of the other one
}

// OwnKeys begins the names of the foreign keys that weir makes; those of no others begin so.
const OwnKeys = "weir_fk"

// AddForeignKey has a table that weir is going to make get a foreign key, which it names.
func (t *Table) AddForeignKey(k ForeignKey) {
	k.Name = OwnKeys + strconv.Itoa(len(t.ForeignKeys)+1)
	t.ForeignKeys = append(t.ForeignKeys, k)
}

// Like returns a column for what c holds: a foreign key to c in a table that weir is going to make.
func (c *Column) Like(name string, key bool) Column {
	l := *c
	l.Name, l.Key, l.NotNull, l.New, l.Default, l.Generated, l.Held = name, key, key, true, "", false, ""
	if c.Own {
		l.Decl = ""
	}
	return l
}

// Follow has the columns of the table's foreign keys become what the columns are that they refer
// to, where weir made both. to returns the table that one refers to, nil where it is not known. What
// the rows need by themselves is then ignored, because those that they refer to have the same
// values: 1 and "1" are one key where 1 came first. grown is what [Table.Grow] returned, of a table
// that exists; Follow returns what is left of it, with what became of the columns.
func (t *Table) Follow(l *Limits, to func(*ForeignKey) *Table, grown []Growth) []Growth {
	for i := range t.ForeignKeys {
		k := &t.ForeignKeys[i]
		other := to(k)
		if other == nil {
			continue
		}
		for j := range k.Columns {
			at, from := l.Find(t, k.Columns[j], j), l.Find(other, k.To[j], j)
			if at < 0 || from < 0 || !t.Columns[at].Own || !other.Columns[from].Own {
				continue
			}
			c, was := &t.Columns[at], t.Columns[at].Type
			g := slices.IndexFunc(grown, func(g Growth) bool { return g.At == at })
			if g >= 0 {
				was = grown[g].From
			}
			if c.seen = 0; t.Exists {
				c.widen(holds[was])
			}
			c.widen(other.Columns[from].seen)
			switch {
			case c.Type == was && g >= 0:
				grown = slices.Delete(grown, g, g+1)
			case c.Type != was && g < 0:
				grown = append(grown, Growth{At: at, From: was})
			}
		}
	}
	return grown
}
