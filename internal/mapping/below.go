package mapping

import (
	"slices"

	"github.com/weirsync/weir/internal/schema"
)

// Below returns the tables whose rows belong to those of a table, parents before their children.
// They name the nearest row above that has a key which the database generates, or else that of the
// table.
func (p *Plan) Below(table int) (below []schema.Lower) {
	var tables []int // of below
	for i := range p.tables {
		above := p.tables[i].nest.parent
		if above != table && !slices.Contains(tables, above) {
			continue
		}
		columns, to := p.named(i)
		for above != table && p.tables[above].spec.ID == "" { // its key begins with that of the row above it
			_, to = p.named(above)
			columns, above = columns[:len(to)], p.tables[above].nest.parent
		}
		below = append(below, schema.Lower{Table: p.tables[i].spec.Name, Key: p.StoredKey(i), Owner: p.Owner(i), Above: slices.Index(tables, above), Columns: columns, To: to})
		tables = append(tables, i)
	}
	return below
}

// named returns the columns by which the rows of a table name those that they belong to, and the
// columns of these.
func (p *Plan) named(table int) (columns, to []string) {
	parent := p.tables[table].nest.parent
	if to = p.StoredKey(parent); p.tables[parent].spec.ID != "" {
		to = []string{p.tables[parent].spec.ID}
	}
	return p.StoredKey(table)[:len(to)], to
}

// Owner returns what finds what the first column of a table's key has, where that names the row
// that another belongs to by a key that the database generates; nil: it does not.
func (p *Plan) Owner(table int) *schema.Lookup {
	if o := p.tables[table].owner; o != nil {
		return p.lookup(o.table)
	}
	return nil
}
