package sqlite

// Pragma reads a setting of the connection, which nobody else can see.
func (d *DB) Pragma(name string) (n int64, err error) {
	err = d.scalar("PRAGMA "+name, &n)
	return n, err
}

// Explain gives an error its class.
func (d *DB) Explain(err error) error { return d.explain(err) }

// KeptSQL is how many bytes of SQL there are of the statements that are kept for their like.
func (d *DB) KeptSQL() int { return d.c.manySQL }

// MaxSQL is how many there may be.
const MaxSQL = maxSQL

// BoundMemory is how many bytes of C's memory there are for values that are bound.
func (d *DB) BoundMemory() int { return d.c.bound.size }

// Disconnect closes the connection as a failed commit does.
func (d *DB) Disconnect() { d.disconnect() }
