// Package sqlite is the driver for SQLite files.
//
// A flush is one transaction that begins as a writer, so that nobody can come between. A row
// is read, compared, and written if it changes. Many new rows are inserted by one statement.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/weirsync/weir/internal/realpath"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
)

// Version is the version of SQLite that is built in.
const Version = lib.SQLITE_VERSION

// Options are the settings of one database.
type Options struct {
	sink.Options
	VFS string // of SQLite's file systems: "" or CountingVFS
	// ReadOnly opens a file that must be there, and writes nothing.
	ReadOnly bool
	// Yield has the lock let go for a while now and then, so that other writers
	// get on: SQLite's lock is not fair, and a writer without pauses starves the
	// others.
	Yield bool
}

// DB is a [sink.Sink] for one file.
type DB struct {
	file
	sink.Ledger
	tables   map[string]*table // by their names in lower case, as of the last commit
	last     sink.Result       // of the last flush
	wrote    bool
	turn     turn
	warnedAt int64 // size of the WAL that was warned of
}

// table is a table as the database has it, and what else its flushes need.
type table struct {
	schema.Table
	key     []string          // by the names that the feed uses
	indexed bool              // it has indexes beside the key's
	version int64             // the schema's version when the table was read
	marks   string            // what weir kept of its columns then
	stuck   map[string]string // columns of weir's that could not be widened, and why
}

var (
	_ sink.Sink        = (*DB)(nil)
	_ sink.Expirer     = (*DB)(nil)
	_ sink.DeadLetters = (*DB)(nil)
	_ sink.Forgetter   = (*DB)(nil)
	_ sink.Gauged      = (*DB)(nil)
	_ sink.Inspector   = (*DB)(nil)
)

const (
	unread       = -1                    // no version of a schema
	busyWait     = 10                    // ms; how long SQLite itself waits for a lock, for it waits in steps that grow
	patience     = 1000                  // ms of own, short polls before a lock counts as a failure
	yieldFor     = 20 * time.Millisecond // twice the longest wait between polls, see polling
	yieldEvery   = 200 * time.Millisecond
	defaultCache = 64 << 20 // bytes
	walLimit     = 64 << 20 // bytes; a WAL longer than this is cut back
	walWarning   = 256 << 20
	maxColumns   = 2000 // SQLITE_MAX_COLUMN
)

// ofd keeps the locks of an open database when other code of the process closes
// another descriptor of the same file (POSIX locks would go). Where the system
// has none, nothing is lost: weir never opens the file itself.
var _, _ = sqlite.OFDLocking(true)

// Open opens the file at path, or makes it.
func Open(ctx context.Context, path string, o Options) (*DB, error) {
	d := &DB{file: file{path: realpath.Of(path), opt: o}, tables: map[string]*table{}}
	d.Ledger = func(ctx context.Context, sql func(sink.Dialect) string) ([][][]byte, error) {
		rows, err := d.ask(ctx, sql)
		return rows, d.explain(err)
	}
	if err := d.open(ctx, lib.SQLITE_OPEN_READWRITE|lib.SQLITE_OPEN_CREATE); err != nil {
		return nil, err
	}
	return d, nil
}

// turn is when other writers had theirs.
type turn struct {
	released time.Time // when the lock was released
	yielded  time.Time // when it was last released for long enough
}

// yield lets other writers in, unless the lock was free for long enough lately.
func (t *turn) yield() {
	idle := time.Since(t.released)
	if idle < yieldFor && time.Since(t.yielded) > yieldEvery {
		time.Sleep(yieldFor - idle)
		idle = yieldFor
	}
	if idle >= yieldFor {
		t.yielded = time.Now()
	}
}

// Caps implements [sink.Sink].
func (d *DB) Caps() sink.Caps { return caps }

// Gauges implements [sink.Gauged].
func (d *DB) Gauges() []sink.Gauge {
	return []sink.Gauge{{Name: "weir_sqlite_wal_bytes", Help: "Size of the database's write-ahead log.", Read: d.walBytes}}
}

// Close implements [sink.Sink]. In a file at level normal it first syncs what
// was committed.
func (d *DB) Close() error {
	var err error
	if d.c != nil {
		if d.wrote {
			err = d.checkpointAll(context.Background())
		}
		err = errors.Join(err, d.close())
	}
	return err
}

// literal makes a text a string of SQL.
func literal(s string) string {
	if strings.IndexByte(s, 0) >= 0 {
		return fmt.Sprintf("CAST(x'%x' AS TEXT)", s)
	}
	return "'" + strings.ReplaceAll(s, "'", "''") + "'"
}

// quote makes a name an identifier of SQL.
func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
