package postgres

import (
	"fmt"
	"strings"
)

// This file is about tables that have outgrown the memory of the server, where a flush waits for the disk: the pages that
// its rows are in are read before the MERGE asks for them, many at a time. See docs/performance.md#tables-larger-than-memory.

// Tests make these smaller.
var (
	// aheadRows is how many staged rows are read ahead and written before the next ones are: what was read
	// is not to leave the memory before it is used.
	aheadRows = 1000
	// leastAhead is how many rows are worth it.
	leastAhead = 100
)

// mostSlices bounds what planning them takes. The more rows a flush has, the more of them are in a page.
const mostSlices = 40

// mayReadAhead reports whether the pages of some staged rows can be read ahead: by a bitmap of the index of a key, which
// takes a list of a single column's values. What looks at the rows at the end of a statement needs all of them.
func (m *merge) mayReadAhead(rows int) bool {
	return rows >= leastAhead && len(m.table.Key) == 1 && !m.table.below && !m.table.whole && !m.separate
}

// mergeAhead adds the MERGE of the staged rows, slice by slice in their order, and before each the query that reads the
// pages of its rows: a bitmap heap scan, the only one that is left, for which the server has the system read many pages
// at once. A slice is a range of places in the staging table; whens are the clauses of the MERGE.
func (m *merge) mergeAhead(s *script, rows int, whens string) {
	s.add("SELECT set_config('effective_io_concurrency', '64', true) WHERE current_setting('effective_io_concurrency')::int BETWEEN 1 AND 63") // 0 where the system cannot
	s.add("SET LOCAL enable_seqscan = off")
	size := max(aheadRows, (rows+mostSlices-1)/mostSlices)
	last := (rows - 1) / size
	// How many rows a page has is known to the server alone, which compresses long values, or puts them elsewhere.
	s.add("SELECT set_config('weir.slices', array_agg(ctid ORDER BY ctid)::text, true) FROM %s WHERE n > 0 AND n %% %d = 0", m.t.stageName(), size)
	begin := func(slice int) string { return fmt.Sprintf("(current_setting('weir.slices')::tid[])[%d]", slice) }
	key := m.table.Key[0]
	for i := range last + 1 {
		var bounds []string
		if i > 0 {
			bounds = append(bounds, "ctid >= "+begin(i))
		}
		if i < last {
			bounds = append(bounds, "ctid < "+begin(i+1))
		}
		slice := "SELECT * FROM " + m.t.stageName()
		if bounds != nil {
			slice += " WHERE " + strings.Join(bounds, " AND ")
		}
		s.add("SET LOCAL enable_indexscan = off")
		s.add("SELECT count(t.%s) FROM %s t WHERE %s = ANY (ARRAY(SELECT c%d FROM (%s) s))", ident(m.table.Columns[key].Name), m.table.ident, m.table.compared(key), key, slice)
		s.add("SET LOCAL enable_indexscan = DEFAULT")
		s.add("%s", m.mergeSQL("("+slice+")", whens))
	}
}
