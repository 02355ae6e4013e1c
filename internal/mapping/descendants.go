package mapping

import (
	"slices"

	"github.com/weirsync/weir/internal/schema"
)

// Descendants returns the descendants of a table, parents before children, with the foreign key of each: to its nearest
// ancestor whose key the database generates, or else to the table.
func (p *Plan) Descendants(table int) (below []schema.Lower) {
	var tables []int // indexes of the tables in below
	for i := range p.tables {
		above := p.tables[i].nest.parent
		if above != table && !slices.Contains(tables, above) {
			continue
		}
		columns, to := p.parentReference(i)
		for above != table && p.tables[above].spec.ID == "" { // its key starts with its parent's key
			_, to = p.parentReference(above)
			columns, above = columns[:len(to)], p.tables[above].nest.parent
		}
		below = append(below, schema.Lower{Table: p.tables[i].spec.Name, Key: p.StoredKey(i), Owner: p.Owner(i), Above: slices.Index(tables, above), Columns: columns, To: to})
		tables = append(tables, i)
	}
	return below
}

// parentReference returns the columns that refer to the parent row, and the columns of the parent that they refer to.
func (p *Plan) parentReference(table int) (columns, to []string) {
	parent := p.tables[table].nest.parent
	if to = p.StoredKey(parent); p.tables[parent].spec.ID != "" {
		to = []string{p.tables[parent].spec.ID}
	}
	return p.StoredKey(table)[:len(to)], to
}

// Owner returns the lookup of the generated key that the first key column of a table refers to; nil if there is none.
func (p *Plan) Owner(table int) *schema.Lookup {
	if o := p.tables[table].owner; o != nil {
		return p.lookup(o.table)
	}
	return nil
}
