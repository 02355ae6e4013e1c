// Package sqlite is the driver for SQLite files.
//
// A flush is one transaction that locks the database for writing at its start. An upsert inserts
// or updates 16 ordinary rows at once. Other rows are looked up, compared, and written if they change.
package sqlite

import (
	"context"
	"fmt"
	"strings"
	"time"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/sink"
)

// Version is the built-in version of SQLite.
const Version = lib.SQLITE_VERSION

// Options are the settings of one database.
type Options struct {
	sink.Options
	// ReadOnly opens an existing file, and writes nothing.
	ReadOnly bool
}

// DB is a [sink.Sink] for one file.
type DB struct {
	file
	sink.Ledger
	tables map[string]*table // by lower-case name, as of the last commit
	last   sink.Result       // of the last flush
	wrote  bool
	turn   turn
}

// table is a table as in the database, with what else its flushes need.
type table struct {
	schema.Table
	key     []string          // the feed's names
	indexed bool              // it has indexes besides the key's
	rowless bool              // WITHOUT ROWID
	version int64             // schema version when the table was read
	marks   string            // weir_meta's entry for its columns then
	stuck   map[string]string // columns of weir's that could not be widened, and why
}

var (
	_ sink.Sink          = (*DB)(nil)
	_ sink.RejectDropper = (*DB)(nil)
	_ sink.Housekeeper   = (*DB)(nil)
	_ sink.Forgetter     = (*DB)(nil)
	_ sink.Gauged        = (*DB)(nil)
	_ sink.Inspector     = (*DB)(nil)
)

const (
	unread       = -1                    // not a schema version
	busyWait     = 10                    // ms that SQLite itself waits for a lock; short, because its waits grow in steps
	lockWait     = 1000                  // ms of short polls before a lock counts as a failure
	yieldFor     = 20 * time.Millisecond // twice the longest wait between polls, see polling
	yieldEvery   = 200 * time.Millisecond
	defaultCache = 64 << 20 // bytes
	walLimit     = 64 << 20 // bytes; a longer WAL is truncated
	maxColumns   = 2000     // SQLITE_MAX_COLUMN
)

// OFD locks keep an open database locked when other code in the process closes another descriptor of the same file;
// POSIX locks would be released. If the system has none, it does not matter: weir never opens the file itself.
var _, _ = sqlite.OFDLocking(true)

// Open opens the file at path. It creates the file if it is missing.
func Open(ctx context.Context, path string, o Options) (*DB, error) {
	d := &DB{file: file{path: realPath(path), opt: o}, tables: map[string]*table{}}
	d.Ledger = sink.Ledger{Query: d.query, Exec: d.exec, Transaction: func(ctx context.Context, f func(sink.Ledger) error) error {
		return d.transact(ctx, func() error { return f(d.Ledger) })
	}}
	if err := d.open(ctx, lib.SQLITE_OPEN_READWRITE|lib.SQLITE_OPEN_CREATE); err != nil {
		return nil, err
	}
	return d, nil
}

// turn records when other writers could write.
type turn struct {
	released time.Time // when the lock was released
	yielded  time.Time // when it was last released for long enough
}

// yield lets other writers in, unless the lock was recently free for long enough. SQLite's lock is not fair: a writer
// without pauses starves the others.
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

// Close implements [sink.Sink]. At level normal it first syncs what was committed.
func (d *DB) Close() error {
	var err error
	if d.c != nil {
		if d.wrote {
			err = d.checkpointAll(context.Background())
		}
		d.disconnect()
	}
	return err
}

func literal(s string) string {
	if strings.IndexByte(s, 0) >= 0 {
		return fmt.Sprintf("CAST(x'%x' AS TEXT)", s)
	}
	return "'" + strings.ReplaceAll(s, "'", "''") + "'"
}

// quote returns a quoted identifier.
func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
