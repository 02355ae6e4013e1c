package postgres

// This file is about what takes the place of a MERGE: for tables that have rules or row-level
// security, or for which the server refuses one; for servers whose MERGE is wrong or cannot be counted; and
// for a flush whose MERGE found each time that another session had just inserted a row of its own: these
// statements wait for it.

// separates reports whether the rows are written by separate statements.
func (p *part) separates() bool {
	d := p.a.d
	return !d.counts || d.mergeMisses() || p.t.unmergeable || p.after.policed || p.a.tries[errTaken] == causes[errTaken].limit
}

// mergeMisses reports whether the server is one before 15.5 or 16.1: there a MERGE that has waited for an
// UPDATE of another session may take the row for missing, and so pass by the delete of it.
func (c *client) mergeMisses() bool { return c.version < 150005 || c.version == 160000 }
