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

	lib "modernc.org/sqlite/lib"

	"github.com/weirsync/weir/internal/backoff"
	"github.com/weirsync/weir/internal/sink"
)

// file is a connection to a database file.
type file struct {
	path string
	opt  Options
	c    *conn       // nil if disconnected
	id   os.FileInfo // the file that was opened
	wal  bool
}

// open connects to the file. flags are SQLite's, for a writable file.
func (f *file) open(ctx context.Context, flags int32) error {
	if f.opt.ReadOnly {
		flags = lib.SQLITE_OPEN_READONLY
	}
	before, err := os.Stat(f.path)
	switch {
	case err != nil:
		before = nil
	case !before.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", f.path)
	}
	if f.c, err = openConn(f.path, flags); err != nil {
		f.c = nil
		return f.explain(err)
	}
	if err = f.configure(ctx, before == nil || before.Size() == 0, flags); err == nil {
		f.id, err = os.Stat(f.path)
	}
	if err != nil {
		f.disconnect()
	} else if before == nil && f.opt.Log != nil {
		f.opt.Log.Info("created the database " + f.path)
	}
	return f.explain(err)
}

// disconnect closes the connection; the next flush reconnects.
func (f *file) disconnect() {
	f.c.close()
	f.c = nil
}

// configure applies the settings of a connection, and checks that weir can write the file.
func (f *file) configure(ctx context.Context, fresh bool, flags int32) error {
	if err := f.pragma(fmt.Sprintf("busy_timeout=%d", busyWait)); err != nil {
		return err
	}
	if fresh && flags&lib.SQLITE_OPEN_CREATE != 0 {
		// Only in a file that weir creates, because the mode is stored in the file.
		if err := f.polling(ctx, func() error { return f.pragma("journal_mode=WAL") }); err != nil {
			return err
		}
	}
	mode, err := f.scalar(ctx, "PRAGMA journal_mode")
	if err != nil {
		return err
	}
	f.wal = string(mode.text) == "wal"
	foreignKeys := "ON"
	if f.opt.IgnoreForeignKeys {
		foreignKeys = "OFF"
	}
	for _, p := range []string{
		"trusted_schema=OFF", "foreign_keys=" + foreignKeys, fmt.Sprintf("cache_size=-%d", cmp.Or(f.opt.Cache, defaultCache)>>10), fmt.Sprintf("journal_size_limit=%d", walLimit),
		"synchronous=" + f.level(),
	} {
		if err := f.pragma(p); err != nil {
			return err
		}
	}
	if runtime.GOOS == "darwin" && (f.opt.Level == sink.Full || f.opt.Level == sink.Extra) {
		// On macOS, fsync alone is not durable.
		if err := errors.Join(f.pragma("fullfsync=1"), f.pragma("checkpoint_fullfsync=1")); err != nil {
			return err
		}
	}
	format, err := f.query(ctx, sink.Dialect.FormatSQL)
	if err != nil {
		return err
	}
	return sink.CheckFormat(format, f.path)
}

// level returns SQLite's name for the promised durability. Without a WAL, FULL does not sync the journal's deletion, so
// a power cut can undo the last commit.
func (f *file) level() string {
	if f.opt.Level == sink.Full && !f.wal {
		return "EXTRA"
	}
	return strings.ToUpper(string(f.opt.Level))
}

func (f *file) pragma(p string) error { return f.c.exec("PRAGMA " + p) }

func (f *file) hasTable(ctx context.Context, name string) (bool, error) {
	n, err := f.scalar(ctx, "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?", text(name))
	return n.int > 0, err
}

// scalar is [conn.scalar] for a file that others may have locked.
func (f *file) scalar(ctx context.Context, sql string, args ...value) (v value, err error) {
	err = f.polling(ctx, func() (err error) { v, err = f.c.scalar(sql, args...); return err })
	return v, err
}

// query implements [sink.Ledger].Query. It asks for weir's tables first: another run may create them after a query has
// failed without them.
func (f *file) query(ctx context.Context, sql func(sink.Dialect) string) (rows [][][]byte, err error) {
	known, err := f.hasTable(ctx, "weir_meta")
	if err == nil && known {
		err = f.polling(ctx, func() error { rows, err = f.c.rows(sql(dialect)); return err })
	}
	return rows, f.explain(err)
}

// exec implements [sink.Ledger].Exec, in a transaction.
func (f *file) exec(ctx context.Context, sql func(sink.Dialect) []string) (changed []int64, err error) {
	for _, statement := range sql(dialect) {
		if err := f.c.exec(statement); err != nil {
			if known, failed := f.hasTable(ctx, "weir_meta"); failed == nil && !known {
				return nil, nil
			}
			return nil, f.explain(err)
		}
		changed = append(changed, int64(f.c.changes()))
	}
	return changed, nil
}

// polling repeats a call, with short waits, while the database is locked. SQLite's own waits grow to 100 ms a step,
// which loses against a busy writer.
func (f *file) polling(ctx context.Context, call func() error) error {
	end, waits := time.Now().Add(lockWait*time.Millisecond), backoff.Backoff{Min: 4 * time.Millisecond, Max: 8 * time.Millisecond}
	for {
		err := call()
		var e *Error
		if !errors.As(err, &e) || e.primary() != lib.SQLITE_BUSY && e.primary() != lib.SQLITE_LOCKED {
			return err
		}
		wait, ok := waits.Next(time.Until(end))
		if !ok {
			return err
		}
		if backoff.Sleep(ctx, wait) != nil {
			return err
		}
	}
}

// walBytes returns the size of the write-ahead log.
func (f *file) walBytes() int64 {
	if fi, err := os.Stat(f.path + "-wal"); err == nil {
		return fi.Size()
	}
	return 0
}

// checkpointAll checkpoints the log into the database, which syncs both. A reader can prevent a complete checkpoint,
// but not the sync.
func (f *file) checkpointAll(ctx context.Context) error {
	if !f.wal {
		return nil
	}
	err := f.polling(ctx, func() error { return f.pragma("wal_checkpoint(TRUNCATE)") })
	var e *Error
	if errors.As(err, &e) && e.primary() == lib.SQLITE_BUSY {
		return nil
	}
	return f.explain(err)
}

// A fault is the meaning of a SQLite result code.
type fault struct {
	class        sink.Class
	reason, hint string
}

const locked = "another program is writing to it"

var faults = map[int32]fault{
	lib.SQLITE_BUSY:     {sink.Transient, "locked", locked},
	lib.SQLITE_LOCKED:   {sink.Transient, "locked", locked},
	lib.SQLITE_PROTOCOL: {sink.Transient, "locked", locked},
	lib.SQLITE_IOERR:    {sink.Unknown, "io", ""},
	lib.SQLITE_FULL:     {sink.Transient, sink.DiskFull, "free some space"},
	lib.SQLITE_READONLY: {sink.Permanent, "readonly", "weir needs to write the file and its folder"},
	lib.SQLITE_NOTADB:   {sink.Permanent, "notadb", "is it the right file? weir creates a file that is missing"},
	lib.SQLITE_CORRUPT:  {sink.Permanent, "corrupt", "the file is damaged: sqlite3 FILE .recover saves what can be read"},
	lib.SQLITE_CANTOPEN: {sink.Permanent, "cantopen", "does the folder exist, and may weir write to it?"},
}

// explain classifies a SQLite error, and adds advice, unless that is done.
func (f *file) explain(err error) error {
	var e *Error
	if !errors.As(err, &e) || errors.As(err, new(*sink.Error)) {
		return err
	}
	is, known := faults[e.primary()]
	switch {
	case !known:
		is = fault{sink.Permanent, "error", ""}
	case e.Code == lib.SQLITE_IOERR_SHMSIZE: // there was no room for the log's index
		is = faults[lib.SQLITE_FULL]
	case f.opt.ReadOnly && (e.primary() == lib.SQLITE_CANTOPEN || e.primary() == lib.SQLITE_READONLY):
		is.hint = "may weir read the file? For one with a write-ahead log SQLite needs to write its folder: run this as the owner of the file"
	}
	if is.hint != "" {
		is.hint = " (" + is.hint + ")"
	}
	return &sink.Error{Class: is.class, Reason: is.reason, Err: fmt.Errorf("%s: %w%s", f.path, err, is.hint)}
}
