package postgres

// This file has all that weir sets of the server's planner, for the transaction at hand: each of its flushes knows its
// rows and their order better than statistics do, which may be old or missing.

// flushMethods are those that a flush does without: hash and merge joins would read the whole table, and lose the order
// of the keys; if statistics take a table for empty, each staged row would be compared with all of a materialized one.
var flushMethods = []string{"enable_hashjoin", "enable_mergejoin", "enable_material"}

// rangeMethods would read the whole table for each range of keys.
var rangeMethods = []string{"enable_seqscan", "enable_bitmapscan", "enable_sort"}

const (
	// byIndex has whatever an index serves be read by it, whatever the statistics say.
	byIndex = "SET LOCAL enable_seqscan = off"
	// interpreted: compiling a statement of many columns takes longer than running it.
	interpreted = "SET LOCAL jit = off"
	// roomToSort is for the keys and places of a batch.
	roomToSort = "SET LOCAL work_mem = '64MB'"
)

// without turns methods of the planner off, until with restores them.
func (s *script) without(methods ...string) { s.setMethods(methods, "off") }

func (s *script) with(methods ...string) { s.setMethods(methods, "DEFAULT") }

func (s *script) setMethods(methods []string, to string) {
	for _, m := range methods {
		s.add("SET LOCAL %s = %s", m, to)
	}
}

// withoutScans has a statement, the second of those returned, not scan one of the relations of a query. To the planner
// a scan of one that was empty when it was last vacuumed or analyzed costs nothing: it would scan what was
// inserted so far for each staged row.
func withoutScans(relations string, st statement) []statement {
	return []statement{
		{sql: "SELECT set_config('enable_seqscan', 'off', true)\nFROM pg_class\nWHERE oid IN (" + relations + ") AND reltuples = 0\nLIMIT 1"},
		st,
		{sql: "SET LOCAL enable_seqscan = DEFAULT"},
	}
}
