package fold

import (
	"bytes"
	"slices"

	"github.com/weirsync/weir/internal/fold/schema"
)

func (b *Batch) sort(rows []*Row) {
	compare := KeyOrder(&b.Table)
	slices.SortFunc(rows, func(x, y *Row) int { return compare(x.Key, y.Key) })
}

// KeyOrder returns the order in which all writers lock and write a table's rows.
func KeyOrder(t *schema.Table) func(a, b []byte) int {
	if len(t.Key) != 1 || t.Columns[t.Key[0]].Type != schema.Int {
		return bytes.Compare
	}
	return func(a, b []byte) int {
		if len(a) != len(b) { // fewer digits mean a smaller number
			return len(a) - len(b)
		}
		return bytes.Compare(a, b)
	}
}
