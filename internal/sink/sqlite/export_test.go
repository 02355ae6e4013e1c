package sqlite

// Pragma reads a setting of the connection, which nobody else can see.
func (d *DB) Pragma(name string) (n int64, err error) {
	v, err := d.c.scalar("PRAGMA " + name)
	return v.int, err
}

// Explain gives an error its class.
func (d *DB) Explain(err error) error { return d.explain(err) }

// Kept is how many statements are kept for their like, and how many bytes of SQL they have.
func (d *DB) Kept() (statements, bytes int) { return len(d.c.many), d.c.manySQL }

// MaxSQL is how many there may be.
const MaxSQL = maxSQL

// BoundMemory is how many bytes of C's memory there are for values that are bound.
func (d *DB) BoundMemory() int { return d.c.bound.size }

// Disconnect closes the connection as a failed commit does.
func (d *DB) Disconnect() { d.disconnect() }
