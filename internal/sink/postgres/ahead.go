package postgres

import (
	"fmt"
)

// This file is about tables that have outgrown the memory of the server, where a flush waits for the disk: the pages that
// its rows are in are read before the MERGE asks for them, many at a time. See docs/performance.md#tables-larger-than-memory.

// Tests make these smaller.
var (
	// aheadRows is how many staged rows, about, are read ahead and written before the next ones are: what was read
	// is not to leave the memory before it is used.
	aheadRows = 1000
	// leastAhead is how many rows are worth it.
	leastAhead = 100
)

const (
	// mostSlices bounds what planning them takes. The more rows a flush has, the more of them are in a page.
	mostSlices = 40

	pageSize = 8192 // bytes, of Postgres
	rowSize  = 40   // bytes of a staged row, about, beside its values
)

// mayReadAhead reports whether the pages of some staged rows can be read ahead: by a bitmap of the index of a key, which
// takes a list of a single column's values.
func (m *merge) mayReadAhead(rows int) bool {
	return rows >= leastAhead && len(m.table.Key) == 1 && !m.table.below
}

// mergeAhead adds the MERGE of the staged rows, slice by slice in their order, and before each the query that reads the
// pages of its rows: a bitmap heap scan, the only one that is left, for which the server has the system read many pages at once. A slice is
// a part of the staging table's pages; the last one has all that are left.
func (m *merge) mergeAhead(s *script, rows int, set []assignment, differs string) {
	s.add("SELECT set_config('effective_io_concurrency', '64', true) WHERE current_setting('effective_io_concurrency')::int BETWEEN 1 AND 63") // 0 where the system cannot
	s.add("SET LOCAL enable_seqscan = off")
	key := m.table.Key[0]
	pages := 1 + (m.size+rows*rowSize)/pageSize
	step := max(1, pages*aheadRows/rows, pages/mostSlices)
	for from := 0; from <= pages; from += step {
		slice := fmt.Sprintf("SELECT * FROM %s WHERE ctid >= '(%d,0)'", m.t.stageName, from)
		if from+step <= pages {
			slice += fmt.Sprintf(" AND ctid < '(%d,0)'", from+step)
		}
		s.add("SET LOCAL enable_indexscan = off")
		s.add("SELECT count(t.%s) FROM %s t WHERE %s = ANY (ARRAY(SELECT c%d FROM (%s) s))", ident(m.table.Columns[key].Name), m.table.ident, m.table.compared(key), key, slice)
		s.add("SET LOCAL enable_indexscan = DEFAULT")
		s.add("%s", m.mergeSQL("("+slice+")", set, differs))
	}
}
