package postgres

// Server settings for the current transaction. They take methods away from the planner: weir knows the rows and their
// order better than statistics do, which may be old or missing, and everything that an index can serve should be read
// by it.

// begin starts a writing transaction. synchronous is its durability.
func (s *script) begin(synchronous string) {
	s.addAll("BEGIN ISOLATION LEVEL READ COMMITTED", // a role's default may differ
		"SET LOCAL synchronous_commit = "+synchronous,
		"SET LOCAL client_min_messages = error", // a trigger may warn for each row
		allDigits,
		"SET LOCAL jit = off", // compiling a statement of many columns takes longer than running it
		// The planner assumes that a scan of a table that was empty at the last vacuum or analyze is free: it would
		// scan the rows inserted so far for each staged row.
		"SET LOCAL enable_seqscan = off")
}

// allDigits makes a double's text have all its digits.
const allDigits = "SET LOCAL extra_float_digits = 1"

// joins are for a flush. Hash and merge joins would read the whole table, and lose the order of the keys. If statistics
// consider a table empty, each staged row would be compared with all rows of a materialized one.
var joins = []string{"SET LOCAL enable_hashjoin = off", "SET LOCAL enable_mergejoin = off", "SET LOCAL enable_material = off"}

const (
	// Everybody else would queue behind a lock of a whole table that waits for a long reader. So it waits only briefly,
	// and the flush is retried.
	briefly   = "SET LOCAL lock_timeout = '2s'"
	patiently = "SET LOCAL lock_timeout = DEFAULT"
)
