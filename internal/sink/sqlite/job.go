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
		return d.c.query("SELECT j.seq, j.rejects, c.line, c.offset, c.mark, c.updated FROM weir_jobs j LEFT JOIN weir_checkpoints c ON c.job = j.job AND c.source = ? WHERE j.job = ?",
			func(s *stmt) error {
				cp = sink.Checkpoint{Seq: s.int(0), Rejects: s.text(1), Line: s.int(2), Offset: s.int(3), Mark: s.text(4), Committed: parseTime(s.text(5))}
				return nil
			}, source, job)
	})
	return cp, d.explain(err)
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
