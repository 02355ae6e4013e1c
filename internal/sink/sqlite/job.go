package sqlite

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"

	"github.com/weirsync/weir/internal/lockfile"
	"github.com/weirsync/weir/internal/sink"
)

// Claim implements [sink.Sink]. A job is held by a lock on one byte of a file
// beside the database, which the system releases when the process ends, however
// it ends. (The database's own locks cannot serve: they are let go after each
// transaction.)
func (d *DB) Claim(_ context.Context, job, source string) (cp sink.Checkpoint, err error) {
	if d.lock != nil && d.lock.job != job {
		d.lock.release()
		d.lock = nil
	}
	if job == "" {
		return cp, nil
	}
	if d.lock == nil {
		if d.lock, err = lockJob(d.path, job); err != nil {
			return cp, err
		}
	}
	known, err := d.hasTable("weir_checkpoints")
	if err != nil || !known {
		return cp, d.explain(err)
	}
	err = d.polling(func() error {
		return d.c.query("SELECT j.seq, j.rejects, c.line, c.offset, c.mark, c.updated, c.rejected, c.settings, c.tableid, j.tbl FROM weir_jobs j LEFT JOIN weir_checkpoints c ON c.job = j.job AND c.source = ? WHERE j.job = ?",
			func(s *stmt) error {
				cp = sink.Checkpoint{Seq: s.int(0), Rejects: s.text(1), Line: s.int(2), Offset: s.int(3), Mark: s.text(4), Committed: parseTime(s.text(5)),
					Rejected: s.int(6), Settings: s.text(7), TableID: s.text(8), Table: s.text(9)}
				return nil
			}, source, job)
	})
	return cp, d.explain(err)
}

// Forget implements [sink.Forgetter].
func (d *DB) Forget(_ context.Context, job string) (f sink.Forgotten, err error) {
	known, err := d.hasTable("weir_jobs")
	if err != nil || !known {
		return f, d.explain(err)
	}
	if err := d.polling(func() error { return d.c.exec("BEGIN IMMEDIATE") }); err != nil {
		return f, d.explain(err)
	}
	if err = d.forget(job, &f); err == nil {
		d.wrote = true
		err = d.commit()
	}
	if !d.c.autocommit() {
		err = errors.Join(err, d.c.exec("ROLLBACK"))
	}
	return f, d.explain(err)
}

func (d *DB) forget(job string, f *sink.Forgotten) error {
	var tbl string
	var others, found int64
	err := errors.Join(
		d.scalar("SELECT coalesce(tbl, '') FROM weir_jobs WHERE job = ?", &tbl, job),
		d.scalar("SELECT count(*) FROM weir_jobs WHERE tbl = ? COLLATE NOCASE AND job <> ?", &others, tbl, job),
		d.scalar("SELECT count(*) FROM weir_checkpoints WHERE job = ?", &f.Sources, job),
		d.scalar("SELECT count(*) FROM weir_rejects WHERE job = ?", &f.Rejects, job),
		d.scalar("SELECT count(*) FROM weir_jobs WHERE job = ?", &found, job))
	if err != nil {
		return err
	}
	f.Found = found > 0 || f.Rejects > 0
	for _, table := range []string{"weir_rejects", "weir_checkpoints", "weir_jobs"} {
		if err := d.c.exec("DELETE FROM "+table+" WHERE job = ?", job); err != nil {
			return err
		}
	}
	if tbl == "" || others > 0 {
		return nil
	}
	f.Versions, err = d.dropVersions(tbl)
	return err
}

type jobLock struct {
	job  string
	file *lockfile.File
}

// lockJob takes the lock of a job in the database at path.
func lockJob(path, job string) (*jobLock, error) {
	f, err := lockfile.OpenLike(path+"-weir", path)
	if err != nil {
		return nil, fmt.Errorf("taking the job's lock: %w", err)
	}
	h := fnv.New64a()
	h.Write([]byte(job))
	busy, err := f.Lock(int64(h.Sum64() >> 2))
	switch {
	case busy:
		err = sink.ErrBusy
	case err == nil:
		return &jobLock{job, f}, nil
	default:
		err = fmt.Errorf("taking the job's lock: %w", err)
	}
	return nil, errors.Join(err, f.Close())
}

func (l *jobLock) release() { l.file.Close() }
