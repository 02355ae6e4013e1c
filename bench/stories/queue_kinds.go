package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/weirsync/weir/bench/ladder"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/spool"
)

// An sqliteQueue is a table: one connection, explicit transactions, no VACUUM.
type sqliteQueue struct {
	db  *sql.DB
	add *sql.Stmt
}

func openSQLiteQueue(ctx context.Context, dir string, level sink.Level) (_ queue, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	db, err := ladder.OpenSQLite(ctx, filepath.Join(dir, "queue.db"), level)
	if err != nil {
		return nil, err
	}
	q := &sqliteQueue{db: db}
	_, err = db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS queue (n INTEGER PRIMARY KEY AUTOINCREMENT, line BLOB NOT NULL)")
	if err == nil {
		q.add, err = db.PrepareContext(ctx, "INSERT INTO queue (line) VALUES (?)")
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return q, nil
}

func (q *sqliteQueue) put(ctx context.Context, request []byte) error {
	return q.within(ctx, func(tx *sql.Tx) error {
		add := tx.StmtContext(ctx, q.add)
		for line := range bytes.Lines(request) {
			if _, err := add.ExecContext(ctx, bytes.TrimSuffix(line, []byte("\n"))); err != nil {
				return err
			}
		}
		return nil
	})
}

func (q *sqliteQueue) take(ctx context.Context, n int, see func(line []byte) error) error {
	return q.within(ctx, func(tx *sql.Tx) (err error) {
		rows, err := tx.QueryContext(ctx, "SELECT n, line FROM queue ORDER BY n LIMIT ?", n)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, rows.Close()) }()
		var last int64
		for rows.Next() {
			var line sql.RawBytes
			if err := rows.Scan(&last, &line); err != nil {
				return err
			}
			if err := see(line); err != nil {
				return err
			}
		}
		if err := rows.Err(); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "DELETE FROM queue WHERE n <= ?", last)
		return err
	})
}

func (q *sqliteQueue) within(ctx context.Context, f func(tx *sql.Tx) error) error {
	tx, err := q.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

func (q *sqliteQueue) usage() ladder.Usage { return ladder.SQLiteUsage() }
func (q *sqliteQueue) close() error        { return q.db.Close() }

// A spoolQueue is the log of weir's spool. Where weir itself reads it, what is taken out is known from the
// checkpoint in the database.
type spoolQueue struct {
	log    *spool.Log
	fs     *countedFS
	level  sink.Level
	synced time.Time
	at     int64 // of the line that is taken next
	end    int64 // after the last line
	buffer []byte
}

const (
	spoolSegment = 64 << 20    // bytes, as in weir
	spoolPeriod  = time.Second // of syncs at normal, as in weir
)

func openSpoolQueue(_ context.Context, dir string, level sink.Level) (queue, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	q := &spoolQueue{fs: &countedFS{FS: spool.Folder(dir)}, level: level, synced: time.Now(), buffer: make([]byte, takeLines*len(queueLine))}
	var err error
	if q.log, err = spool.Open(q.fs, spoolSegment, math.MaxInt64, 0); err != nil {
		return nil, err
	}
	q.at, q.end = q.log.Bounds()
	return q, nil
}

func (q *spoolQueue) put(ctx context.Context, request []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := q.log.Append(request, spool.Origin{}); err != nil {
		return err
	}
	q.end += int64(len(request))
	if q.level == sink.Full || q.level == sink.Normal && time.Since(q.synced) >= spoolPeriod {
		q.synced = time.Now()
		return q.log.Sync()
	}
	return nil
}

func (q *spoolQueue) take(ctx context.Context, n int, see func(line []byte) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if q.at == q.end {
		return nil
	}
	size, _, err := q.log.Read(q.buffer[:n*len(queueLine)], q.at, q.end)
	if err != nil {
		return err
	}
	for line := range bytes.Lines(q.buffer[:size]) {
		if err := see(bytes.TrimSuffix(line, []byte("\n"))); err != nil {
			return err
		}
	}
	q.at += int64(size)
	q.log.Commit(q.at)
	return q.log.Forget(false, nil)
}

func (q *spoolQueue) usage() ladder.Usage { return q.fs.used }
func (q *spoolQueue) close() error        { return errors.Join(q.log.Sync(), q.log.Close()) }

// A countedFS counts what is asked of a folder. One goroutine uses it.
type countedFS struct {
	spool.FS
	used ladder.Usage
}

func (c *countedFS) Open(name string) (spool.File, error) {
	f, err := c.FS.Open(name)
	if err != nil {
		return nil, err
	}
	return &countedFile{f, &c.used}, nil
}

func (c *countedFS) Sync() error {
	c.used.Syncs++
	return c.FS.Sync()
}

type countedFile struct {
	spool.File
	used *ladder.Usage
}

func (f *countedFile) WriteAt(b []byte, at int64) (int, error) {
	f.used.Written += int64(len(b))
	return f.File.WriteAt(b, at)
}

func (f *countedFile) Sync() error {
	f.used.Syncs++
	return f.File.Sync()
}
