package fold

import (
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/fold/schema"
)

// Stored is what a database has for a row.
type Stored struct {
	Exists  bool   // may be false without a lookup if State is nil
	State   []byte // the versions stored with the row, nil for none; for ColumnScope
	Version []byte // the text in the version's column, nil for NULL; for RowScope
}

// Resolved is the result for a row.
type Resolved struct {
	Row       Row    // what to write
	Unchanged bool   // nothing needs to be written
	State     []byte // the versions to store with the row; nil if they are unchanged
}

// A Resolver decides which values of a batch's rows are newer than those in the database. It is not safe for
// concurrent use.
type Resolver struct {
	b       Batch    // the batch, with columns that it did not know
	names   []string // of the columns with versions, by their number
	columns []int32  // the number of each column of the batch's table
	now     state
	cleared []int32
}

// NewResolver returns a resolver for the rows of a batch. names is what Names returned when the rows' states were
// last written; table is the database's table. The batch is not changed, so others may read it.
func NewResolver(b *Batch, names []string, table *schema.Table) *Resolver {
	v, rules := &Resolver{b: *b}, *b.rules
	rules.table, v.b.rules = &v.b.Table, &rules
	for _, name := range names {
		if hidden, ok := strings.CutPrefix(name, keptHidden); ok {
			name = schema.HiddenName(hidden)
		}
		v.names = append(v.names, name)
	}
	v.b.Table = b.Table.Clone()
	number := map[string]int32{}
	for i, name := range v.names {
		number[b.Limits.FoldName(name)] = int32(i)
		if at := b.Limits.Find(table, name, i); at >= 0 && b.Limits.Find(&v.b.Table, name, i) < 0 {
			v.b.Table.Columns = append(v.b.Table.Columns, table.Columns[at])
		}
	}
	for i := range v.b.Table.Columns {
		name := v.b.Table.Columns[i].Name
		n, known := number[b.Limits.FoldName(name)]
		if !known {
			n = int32(len(v.names))
			v.names = append(v.names, name)
		}
		v.columns = append(v.columns, n)
	}
	return v
}

// Names returns the names of all columns with versions. Store them with the states.
func (v *Resolver) Names() []string {
	names := slices.Clone(v.names)
	for i, name := range names {
		if schema.IsHiddenName(name) {
			names[i] = keptHidden + schema.HiddenTitle(name)
		}
	}
	return names
}

// keptHidden is the prefix of stored names of hidden columns, because [schema.HiddenName] is not UTF-8. No field's
// name has this prefix.
const keptHidden = "\x00"

// Batch returns the batch of the resolved rows: the given one, plus columns of the table that have versions and that
// it did not know.
func (v *Resolver) Batch() *Batch { return &v.b }

// Resolve decides what is written for a row of the batch. The memory of the result is the batch's, and stays valid
// when other rows are resolved.
func (v *Resolver) Resolve(r *Row, was Stored) (Resolved, error) {
	vs := v.b.versions.of(r)
	out := Row{Key: r.Key, hash: r.hash, cells: r.cells, versions: r.versions}
	if v.b.Scope == RowScope {
		return v.row(out, vs, was), nil
	}
	return v.column(out, vs, was)
}

// drop removes the values with an old version from a row, and reports whether any are left.
func (v *Resolver) drop(out *Row, vs *versions, old func(column int, version []byte) bool) (some bool) {
	own, last, version := false, ref(0), []byte(nil)
	for c, ver := range vs.cells {
		if ver == 0 {
			continue
		}
		if ver != last { // neighbours mostly share a version
			last, version = ver, v.b.arena.get(ver)
		}
		if !old(c, version) {
			some = true
			continue
		}
		if !own {
			out.cells, own = slices.Clone(out.cells), true
		}
		out.cells[c] = 0
	}
	return some
}
