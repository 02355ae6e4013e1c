package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
	"unicode/utf8"

	lib "modernc.org/sqlite/lib"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink"
)

// dialect is how SQLite declares weir's own tables.
var dialect = sink.Dialect{Integer: "INTEGER", Time: "TEXT", Bytes: "BLOB", Serial: "INTEGER PRIMARY KEY", Raw: "raw TEXT", Keyed: " WITHOUT ROWID"}

const timeFormat = "2006-01-02T15:04:05.000Z"

// Flush implements [sink.Sink].
func (d *DB) Flush(ctx context.Context, f *sink.Flush) (sink.Result, error) {
	if err := d.usable(); err != nil {
		return sink.Result{}, err
	}
	d.yield()
	if err := d.polling(func() error { return d.c.exec("BEGIN IMMEDIATE") }); err != nil {
		return sink.Result{}, d.explain(err)
	}
	d.wrote = true
	res, done, err := d.write(ctx, f)
	switch {
	case err != nil || done:
		if !d.c.autocommit() {
			err = errors.Join(err, d.c.exec("ROLLBACK"))
		}
	default:
		d.last = res // what counts if the answer is lost and the commit is not
		if err = d.commit(); err == nil {
			d.table = d.written
		}
	}
	d.released = time.Now()
	if err != nil {
		d.version = unread // another run may have made the schema that was rolled back here
	}
	err = d.explain(err)
	if e := (*sink.Error)(nil); errors.As(err, &e) && e.Class == sink.Unknown {
		// Whatever this connection says from now on may be untrue, and the
		// COMMIT may have happened: the next try asks the file.
		d.disconnect()
	}
	if err == nil {
		d.trim()
	}
	return res, err
}

// usable makes sure that the connection is open and still that of the file at
// the path: SQLite goes on writing into a file that was deleted or replaced, and
// says that all is well.
func (d *DB) usable() error {
	if d.c == nil {
		if err := d.open(lib.SQLITE_OPEN_READWRITE); err != nil {
			return err
		}
		// After an fsync that failed, what the file says may stand in memory
		// alone: moving the log into the database writes and syncs it anew.
		if err := d.checkpointAll(); err != nil {
			d.disconnect()
			return err
		}
		if was := d.table; was.Name != "" {
			now, err := d.Table(context.Background(), was.Name, d.key)
			if err != nil {
				return err
			}
			if err := sink.CheckSame(&was, &now); err != nil {
				return err
			}
		}
	}
	now, err := os.Stat(d.path)
	if err != nil {
		return fmt.Errorf("the database file went away under the run: %w", err)
	}
	if !os.SameFile(now, d.id) {
		return fmt.Errorf("the database file %s was replaced by another under the run; what this run had committed since went with the old one", d.path)
	}
	return nil
}

// commit ends the transaction. Without a WAL readers can hold it up; the
// transaction stays open then.
func (d *DB) commit() error {
	err := d.polling(func() error { return d.c.exec("COMMIT") })
	var e *Error
	if errors.As(err, &e) {
		e.Doing = "committing"
		if e.primary() == lib.SQLITE_BUSY {
			return errors.Join(err, d.c.exec("ROLLBACK"))
		}
	}
	return err
}

// write does all of a flush between BEGIN and COMMIT. done tells that it was
// committed before.
func (d *DB) write(ctx context.Context, f *sink.Flush) (res sink.Result, done bool, err error) {
	for _, sql := range dialect.Ledger() {
		if err := d.c.exec(sql); err != nil {
			return res, false, err
		}
	}
	if done, err := d.fence(f); done || err != nil {
		return d.last, done, err
	}
	if len(f.Rebuild) > 0 {
		if err := d.empty(f); err != nil {
			return res, false, err
		}
	}
	cp := f.Checkpoint
	d.written = d.table
	if f.Batch.Rows() > 0 {
		table, err := d.fit(f.Batch)
		if err != nil {
			return res, false, err
		}
		w := d.newWriter(f.Batch, table, table.HasConstraints || d.indexed)
		if err := w.batch(ctx, f); err != nil {
			return res, false, err
		}
		res = w.res
		d.written = table
	}
	rejects := append(f.Batch.Rejects[:len(f.Batch.Rejects):len(f.Batch.Rejects)], res.Refused...)
	if err := d.dropRejects(f); err != nil {
		return res, false, err
	}
	if f.KeepRejects {
		if err := d.keep(f, rejects); err != nil {
			return res, false, err
		}
	}
	if f.BeforeCommit != nil {
		if err := f.BeforeCommit(rejects, &cp); err != nil {
			return res, false, err
		}
	}
	return res, false, d.checkpoint(f, cp)
}

// fence demands that the job stand where this flush begins.
func (d *DB) fence(f *sink.Flush) (done bool, err error) {
	var seq int64
	var run string
	err = d.c.query("SELECT seq, run FROM weir_jobs WHERE job = ?", func(s *stmt) error {
		seq, run = s.int(0), s.text(1)
		return nil
	}, f.JobName())
	if err != nil {
		return false, err
	}
	return f.Judge(seq, run)
}

func (d *DB) checkpoint(f *sink.Flush, cp sink.Checkpoint) error {
	now := time.Now().UTC().Format(timeFormat)
	job := f.JobName()
	err := d.c.exec("INSERT INTO weir_jobs (job, tbl, seq, run, rejects, updated) VALUES (?1, ?2, ?3, ?4, ?5, ?6)"+
		" ON CONFLICT (job) DO UPDATE SET tbl = ?2, seq = ?3, run = ?4, rejects = ?5, updated = ?6",
		job, f.Batch.Table.Name, cp.Seq, f.Run, cp.Rejects, now)
	if err != nil {
		return err
	}
	if f.Job == "" {
		if cp.Seq > 1 {
			return nil
		}
		return d.c.exec("DELETE FROM weir_jobs WHERE job GLOB ?1 || '*' AND updated < ?2", sink.RunPrefix, time.Now().Add(-sink.RunsKept).UTC().Format(timeFormat))
	}
	return d.c.exec("INSERT INTO weir_checkpoints (job, source, line, offset, mark, rejected, settings, tableid, updated) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)"+
		" ON CONFLICT (job, source) DO UPDATE SET line = ?3, offset = ?4, mark = ?5, rejected = ?6, settings = ?7, tableid = ?8, updated = ?9",
		job, f.Source, cp.Line, cp.Offset, cp.Mark, cp.Rejected, cp.Settings, d.written.ID, now)
}

// dropRejects removes rejected lines that are read again, and those that are old.
func (d *DB) dropRejects(f *sink.Flush) error {
	if f.Restart {
		if err := d.c.exec("DELETE FROM weir_rejects WHERE job = ? AND source = ?", f.Job, f.Source); err != nil {
			return err
		}
	}
	if f.DropRejects.IsZero() {
		return nil
	}
	return d.c.exec("DELETE FROM weir_rejects WHERE job = ? AND time < ?", f.Job, f.DropRejects.UTC().Format(timeFormat))
}

// keep writes rejected lines.
func (d *DB) keep(f *sink.Flush, rejects []fold.Reject) error {
	now := time.Now().UTC().Format(timeFormat)
	for i := range rejects {
		r := &rejects[i]
		raw := any(r.Text)
		if !utf8.Valid(r.Text) {
			raw = blob(r.Text) // text that is none would not come back as it is
		}
		err := d.c.exec("INSERT INTO weir_rejects (job, source, line, offset, reason, raw, time) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
			f.Job, f.Source, r.Line, r.Offset, r.Why(), raw, now)
		if err != nil {
			return fmt.Errorf("keeping a rejected line: %w", err)
		}
	}
	return nil
}

// trim cuts the log back when it has grown: a reader that stays keeps it from
// being used again.
func (d *DB) trim() {
	size := d.WALBytes()
	if size < walLimit || size < d.warnedAt {
		return
	}
	_ = d.pragma("wal_checkpoint(TRUNCATE)") // a reader's lock is no failure here
	if size = d.WALBytes(); size > walWarning {
		d.opt.Warn("the log %s-wal has grown to %d MiB: another program holds an old snapshot of the database open", d.path, size>>20)
		d.warnedAt = 2 * size
	}
}
