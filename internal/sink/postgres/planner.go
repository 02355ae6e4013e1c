package postgres

// This file has what weir sets of the server for a transaction at hand. Of the planner it takes methods away: weir knows the
// rows and their order better than statistics do, which may be old or missing, and whatever an index serves is read by it.

// begin starts a transaction that writes. synchronous is how durable it is.
func (s *script) begin(synchronous string) {
	s.addAll("BEGIN ISOLATION LEVEL READ COMMITTED", // a role's default may be another
		"SET LOCAL synchronous_commit = "+synchronous,
		"SET LOCAL client_min_messages = warning",
		"SET LOCAL extra_float_digits = 1", // a double's text has all its digits
		"SET LOCAL jit = off",              // compiling a statement of many columns takes longer than running it
		// To the planner a scan of a table that was empty when it was last vacuumed or analyzed costs nothing: it would scan
		// what was inserted so far for each staged row.
		"SET LOCAL enable_seqscan = off")
}

// joins are for a flush. Hash and merge joins would read the whole table, and lose the order of the keys; if statistics take
// a table for empty, each staged row would be compared with all of a materialized one.
var joins = []string{"SET LOCAL enable_hashjoin = off", "SET LOCAL enable_mergejoin = off", "SET LOCAL enable_material = off"}

const (
	// Behind a lock of a whole table that waits for a long reader, everybody else would queue: so it waits only for a
	// moment, and the flush is tried again.
	briefly   = "SET LOCAL lock_timeout = '2s'"
	patiently = "SET LOCAL lock_timeout = DEFAULT"
)
