package fold

import (
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/schema"
)

// Stored is what a database has of a row.
type Stored struct {
	Exists  bool   // the row is there; it need not be looked up where State is nil
	State   []byte // kept beside it, nil where nothing is; for ColumnScope
	Version []byte // the text in its version's column, nil for NULL; for RowScope
}

// Resolved is what becomes of a row.
type Resolved struct {
	Row       Row    // what is to be written
	Unchanged bool   // there is nothing to write
	State     []byte // what is to be kept beside the row from now on; nil where that is as it was
}

// A Resolver tells which values of a batch's rows are newer than what a database
// has. It is not safe for concurrent use.
type Resolver struct {
	b       Batch    // as it was, but for columns that it did not know
	names   []string // of the columns that have versions, by their number
	columns []int32  // the number of each column of the batch's table
	now     state
	cleared []int32
	above   *Resolver         // of the rows that those of the batch belong to; nil: of none
	tombs   map[string][]byte // by key of a row: its newest delete, and that of the rows that it belongs to
}

// NewResolver starts to resolve the rows of a batch. names is what Names returned
// when the rows' states were last written; table is the table as the database has it.
// The batch stays as it is: others may read it meanwhile.
func NewResolver(b *Batch, names []string, table *schema.Table) *Resolver {
	v, rules := &Resolver{b: *b}, *b.rules
	rules.table, v.b.rules = &v.b.Table, &rules
	if len(rules.children) > 0 {
		v.tombs = map[string][]byte{}
	}
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

// Names returns the names of all columns that have versions. They are to be kept
// with the states.
func (v *Resolver) Names() []string {
	names := slices.Clone(v.names)
	for i, name := range names {
		if schema.IsHiddenName(name) {
			names[i] = keptHidden + schema.HiddenTitle(name)
		}
	}
	return names
}

// keptHidden begins the names that are kept of columns that no database has: [schema.HiddenName] is not UTF-8. No field has
// such a name.
const keptHidden = "\x00"

// Batch returns the batch that the resolved rows are of: the one that was given, and
// those columns of the table that have versions and that it did not know.
func (v *Resolver) Batch() *Batch { return &v.b }

// Resolve tells what becomes of a row of the batch. The row's memory is the batch's
// and, like the state's, stays good when others are resolved.
func (v *Resolver) Resolve(r *Row, was Stored) (Resolved, error) {
	vs := v.b.versions.of(r)
	out := Row{Key: r.Key, hash: r.hash, cells: r.cells, versions: r.versions}
	if v.b.Scope == RowScope {
		return v.row(out, vs, was), nil
	}
	return v.column(out, vs, was)
}

// drop takes the values out of a row whose versions are too old, and reports
// whether any is left.
func (v *Resolver) drop(out *Row, vs *versions, old func(column int, version []byte) bool) (some bool) {
	own, last, version := false, ref(0), []byte(nil)
	for c, ver := range vs.cells {
		if ver == 0 {
			continue
		}
		if ver != last { // neighbours mostly have one version
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
