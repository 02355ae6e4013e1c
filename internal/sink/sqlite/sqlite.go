// Package sqlite is the driver for SQLite files.
//
// It reads each row of a batch, compares, and writes what differs, all inside
// one transaction that began as a writer, so that nobody can come between. That
// is what an upsert does in one statement, but it also leaves unnamed columns to
// their defaults, fires only the triggers of columns that change, and writes
// nothing for a row that stays the same.
package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/weirsync/weir/internal/backoff"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
)

// Version is the version of SQLite that is built in.
const Version = lib.SQLITE_VERSION

// The levels of Options.Synchronous.
const (
	Off    = "off"
	Normal = "normal"
	Full   = "full"
	Extra  = "extra"
)

// Options are the settings of one database.
type Options struct {
	Synchronous string // Off, …
	Cache       int    // bytes of pages that are kept in memory; 0: 64 MiB
	VFS         string // of SQLite's file systems: "" or CountingVFS
	// ReadOnly opens a file that must be there, and writes nothing.
	ReadOnly bool
	// Warn tells the user something that does not stop the run.
	Warn func(format string, args ...any)
	// Yield has the lock let go for a while now and then, so that other writers
	// get on: SQLite's lock is not fair, and a writer without pauses starves the
	// others.
	Yield bool
}

// DB is a [sink.Sink] for one file.
type DB struct {
	path string
	opt  Options
	c    *conn
	id   os.FileInfo // of the file that was opened
	wal  bool
	lock *jobLock
	// still is a file that is read without locks, as it was.
	still os.FileInfo

	// Of the last flush.
	table    schema.Table      // as the database has it
	written  schema.Table      // the same in the transaction at hand
	key      []string          // of table, by the names that the feed uses
	indexed  bool              // the table has indexes beside the key's
	version  int64             // the schema's version when table was read
	marks    string            // what weir kept of its columns then
	stuck    map[string]string // columns of weir's that could not be widened, and why
	last     sink.Result
	wrote    bool
	released time.Time // when the lock was let go
	yielded  time.Time // when it was last let go for long enough
	warnedAt int64     // size of the WAL that was warned of
}

var _ sink.Sink = (*DB)(nil)

const (
	unread       = -1                    // no version of a schema: the table is read again
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
	d := &DB{path: RealPath(path), opt: o, stuck: map[string]string{}}
	flags := int32(lib.SQLITE_OPEN_READWRITE | lib.SQLITE_OPEN_CREATE)
	if o.ReadOnly {
		flags = lib.SQLITE_OPEN_READONLY
	}
	if err := d.open(flags); err != nil {
		return nil, err
	}
	return d, nil
}

func (d *DB) open(flags int32) error {
	before, err := os.Stat(d.path)
	if err != nil {
		before = nil
	}
	if err := checkFile(d.path, before); err != nil {
		return err
	}
	err = d.connect(d.path, before, flags)
	if d.opt.ReadOnly && before != nil {
		err = d.openUnwritable(before, err)
	}
	if err != nil {
		return d.explain(err)
	}
	if d.id, err = os.Stat(d.path); err != nil {
		d.disconnect()
	}
	return err
}

// connect opens and configures the connection. name is the path, or a URI of it.
func (d *DB) connect(name string, before os.FileInfo, flags int32) (err error) {
	if d.c, err = openConn(name, flags, d.opt.VFS); err != nil {
		d.c = nil
		return err
	}
	if err = d.configure(before == nil || before.Size() == 0, flags); err != nil {
		d.disconnect()
	}
	return err
}

// disconnect closes the connection; the next flush opens another.
func (d *DB) disconnect() {
	d.c.close()
	d.c = nil
}

// configure sets what lasts as long as the connection, and checks that the file
// is one that weir can write.
func (d *DB) configure(fresh bool, flags int32) error {
	if err := d.pragma(fmt.Sprintf("busy_timeout=%d", busyWait)); err != nil {
		return err
	}
	if fresh && flags&lib.SQLITE_OPEN_CREATE != 0 {
		// Only in a file that weir makes: the mode stays with the file.
		if err := d.polling(func() error { return d.pragma("journal_mode=WAL") }); err != nil {
			return err
		}
	}
	var mode string
	if err := d.polling(func() error { return d.scalar("PRAGMA journal_mode", &mode) }); err != nil {
		return err
	}
	d.wal = mode == "wal"
	for _, p := range []string{
		"trusted_schema=OFF", "foreign_keys=ON", fmt.Sprintf("cache_size=-%d", cmp.Or(d.opt.Cache, defaultCache)>>10), fmt.Sprintf("journal_size_limit=%d", walLimit),
		"synchronous=" + d.level(),
	} {
		if err := d.pragma(p); err != nil {
			return err
		}
	}
	if runtime.GOOS == "darwin" && (d.opt.Synchronous == Full || d.opt.Synchronous == Extra) {
		// There an fsync does not reach the platter without.
		if err := errors.Join(d.pragma("fullfsync=1"), d.pragma("checkpoint_fullfsync=1")); err != nil {
			return err
		}
	}
	known, err := d.hasTable("weir_meta")
	if err != nil || !known {
		return err
	}
	var made int64
	if err := d.scalar("SELECT CAST(value AS INTEGER) FROM weir_meta WHERE name = 'format'", &made); err != nil {
		return err
	}
	return sink.CheckFormat(made, d.path)
}

// level is SQLite's name for the promised durability. Without a WAL, FULL does
// not sync the journal's removal, so that the last commit can be undone.
func (d *DB) level() string {
	if d.opt.Synchronous == Full && !d.wal {
		return "EXTRA"
	}
	return strings.ToUpper(d.opt.Synchronous)
}

func (d *DB) pragma(p string) error { return d.c.exec("PRAGMA " + p) }

// scalar reads the first column of the first row into an *int64 or *string, and
// leaves it as it is where there is no row.
func (d *DB) scalar(sql string, into any, args ...any) error {
	return d.c.query(sql, func(s *stmt) error {
		switch p := into.(type) {
		case *int64:
			*p = s.int(0)
		case *string:
			*p = s.text(0)
		}
		return nil
	}, args...)
}

func (d *DB) hasTable(name string) (bool, error) {
	var n int64
	err := d.polling(func() error {
		return d.scalar("SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?", &n, name)
	})
	return n > 0, err
}

// polling calls f again, after short waits, while the database is locked.
// SQLite's own waiting grows to 100 ms a step, and loses against a busy writer.
func (d *DB) polling(f func() error) error {
	end, waits := time.Now().Add(patience*time.Millisecond), backoff.Backoff{Min: 4 * time.Millisecond, Max: 8 * time.Millisecond}
	for {
		err := f()
		var e *Error
		if !errors.As(err, &e) || e.primary() != lib.SQLITE_BUSY && e.primary() != lib.SQLITE_LOCKED {
			return err
		}
		wait, ok := waits.Next(time.Until(end))
		if !ok {
			return err
		}
		time.Sleep(wait)
	}
}

// yield lets other writers in, unless the lock was free for long enough lately.
func (d *DB) yield() {
	idle := time.Since(d.released)
	if d.opt.Yield && idle < yieldFor && time.Since(d.yielded) > yieldEvery {
		time.Sleep(yieldFor - idle)
		idle = yieldFor
	}
	if idle >= yieldFor {
		d.yielded = time.Now()
	}
}

// Caps implements [sink.Sink].
func (d *DB) Caps() sink.Caps { return sink.Caps{Name: "SQLite " + Version, Columns: maxColumns} }

// Path returns the file's path with links resolved.
func (d *DB) Path() string { return d.path }

// WALBytes returns the size of the write-ahead log.
func (d *DB) WALBytes() int64 {
	if fi, err := os.Stat(d.path + "-wal"); err == nil {
		return fi.Size()
	}
	return 0
}

// Close implements [sink.Sink]. In a file at level normal it first syncs what
// was committed.
func (d *DB) Close() error {
	var err error
	if d.c != nil {
		if d.wrote {
			err = d.checkpointAll()
		}
		d.disconnect()
		err = errors.Join(err, d.stayed())
	}
	if d.lock != nil {
		d.lock.release()
		d.lock = nil
	}
	return err
}

// checkpointAll moves the log into the database, which syncs both. A reader can
// keep it from all of it, but not from the sync.
func (d *DB) checkpointAll() error {
	if !d.wal {
		return nil
	}
	err := d.polling(func() error { return d.pragma("wal_checkpoint(TRUNCATE)") })
	var e *Error
	if errors.As(err, &e) && e.primary() == lib.SQLITE_BUSY {
		return nil
	}
	return d.explain(err)
}

// explain gives an error of SQLite's its class, and words for people.
func (d *DB) explain(err error) error {
	var e *Error
	if err == nil || !errors.As(err, &e) {
		return err
	}
	out := &sink.Error{Reason: "error"}
	hint := ""
	switch e.primary() {
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED, lib.SQLITE_PROTOCOL:
		out.Class, out.Reason = sink.Transient, "locked"
		hint = "another program is writing to it"
	case lib.SQLITE_IOERR:
		out.Class, out.Reason = sink.Unknown, "io"
	case lib.SQLITE_FULL:
		out.Reason, hint = "full", "free some space and run weir again: it goes on where it stopped"
	case lib.SQLITE_READONLY:
		out.Reason, hint = "readonly", "weir needs to write the file and its folder"
	case lib.SQLITE_NOTADB:
		out.Reason, hint = "notadb", "is it the right file? weir makes a new one where there is none"
	case lib.SQLITE_CORRUPT:
		out.Reason, hint = "corrupt", "the file is damaged: sqlite3 FILE .recover saves what can be read"
	case lib.SQLITE_CANTOPEN:
		out.Reason, hint = "cantopen", "is there such a folder, and may weir write to it?"
		if d.opt.ReadOnly {
			hint = "may weir read the file?"
		}
	}
	if hint != "" {
		hint = " (" + hint + ")"
	}
	out.Err = fmt.Errorf("%s: %w%s", d.path, err, hint)
	return out
}

// quote makes a name an identifier of SQL.
func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
