package sqlite

// Pragma reads a setting of the connection, which nobody else can see.
func (d *DB) Pragma(name string) (n int64, err error) {
	err = d.scalar("PRAGMA "+name, &n)
	return n, err
}

// Explain gives an error its class.
func (d *DB) Explain(err error) error { return d.explain(err) }
