package sqlite

// Pragma reads a setting of the connection, which is not visible from outside.
func (d *DB) Pragma(name string) (n int64, err error) {
	v, err := d.c.scalar("PRAGMA " + name)
	return v.int, err
}

// Path returns the file's path with links resolved.
func (f *file) Path() string { return f.path }

// Explain classifies an error.
func (d *DB) Explain(err error) error { return d.explain(err) }

// Kept returns how many statements prepareVariant keeps, and their bytes of SQL.
func (d *DB) Kept() (statements, bytes int) { return len(d.c.variants), d.c.variantsSQL }

// MaxSQL is the limit on these bytes.
const MaxSQL = maxSQL

// BoundMemory returns how many bytes of C memory are allocated for bound values.
func (d *DB) BoundMemory() int { return d.c.bound.size }

// Disconnect closes the connection as a failed commit does.
func (d *DB) Disconnect() { d.disconnect() }
