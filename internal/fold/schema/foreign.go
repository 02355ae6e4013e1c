package schema

import (
	"slices"
	"strconv"
)

// A ForeignKey requires that the values of some columns are the key of a row of another table, or NULL.
type ForeignKey struct {
	Name    string   // of the constraint, set by [Table.AddForeignKey]
	Columns []string // of the referring table
	Table   string   // [Table.Name] of the referenced table, or another name of it
	To      []string // columns of the referenced table, in the order of Columns
	// Cascade deletes the row with the row it refers to. Without it, the referenced row cannot be deleted.
	Cascade bool
}

// A Referrer is a table with a foreign key to this one.
type Referrer struct {
	Table   string
	Columns []string // columns of this table that it refers to
}

// OwnKeys is the name prefix of weir's foreign keys. No other foreign key has it.
const OwnKeys = "weir_fk"

// AddForeignKey adds a foreign key to a table that weir will create, and names it.
func (t *Table) AddForeignKey(k ForeignKey) {
	k.Name = OwnKeys + strconv.Itoa(len(t.ForeignKeys)+1)
	t.ForeignKeys = append(t.ForeignKeys, k)
}

// Like returns a column for the values of c: for a foreign key to c, in a table that weir will create.
func (c *Column) Like(name string, key bool) Column {
	l := *c
	l.Name, l.Key, l.NotNull, l.New, l.Default, l.Generated, l.Held = name, key, key, true, "", false, ""
	if c.Own || c.Typed {
		l.Decl = ""
	}
	return l
}

// Follow gives the columns of the table's foreign keys the types of the columns they refer to, if weir created both.
// Both columns have the same values, so the rows' own needs are ignored: 1 and "1" are the same key if 1 came first.
// to returns the referenced table, nil if it is unknown. For an existing table, grown is the result of [Table.Grow];
// Follow returns it with the changes to these columns.
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
