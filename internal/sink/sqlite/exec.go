package sqlite

import (
	"context"
	"errors"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// errEnded reports that the user's SQL has ended weir's transaction.
var errEnded = errors.New("it ended the transaction")

// Execute implements [sink.Housekeeper].
func (d *DB) Execute(ctx context.Context, sql string) error {
	defer d.trim()
	return d.transact(ctx, func() error { return d.c.execTheirs(ctx, sql) })
}

// execTheirs executes SQL of the user's, perhaps several statements, in a transaction. The end of ctx interrupts it.
func (c *conn) execTheirs(ctx context.Context, sql string) error {
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		tls := libc.NewTLS() // for this goroutine
		defer tls.Close()
		lib.Xsqlite3_interrupt(tls, c.db)
	})
	err := c.execAll(sql)
	if !stop() {
		<-done // the connection must outlive the call
	}
	if c.autocommit() && err == nil {
		err = errEnded
	}
	return err
}
