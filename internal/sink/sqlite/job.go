package sqlite

import (
	"context"
	"fmt"
	"hash/fnv"
	"os"
	"sync"

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
		if d.lock, err = lockJob(d.path+"-weir", job); err != nil {
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
	job, key string
	file     *os.File
}

// held are the jobs of this process, which the system's locks do not keep from
// one another.
var held sync.Map

func lockJob(path, job string) (*jobLock, error) {
	l := &jobLock{job: job, key: path + "\x00" + job}
	if _, taken := held.LoadOrStore(l.key, true); taken {
		return nil, sink.ErrBusy
	}
	var err error
	if l.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666); err == nil {
		h := fnv.New64a()
		h.Write([]byte(job))
		var busy bool
		if busy, err = lockfile.Lock(l.file, int64(h.Sum64()>>2)); err == nil && !busy {
			return l, nil
		}
		l.file.Close()
		if busy {
			held.Delete(l.key)
			return nil, sink.ErrBusy
		}
	}
	held.Delete(l.key)
	return nil, fmt.Errorf("taking the job's lock: %w", err)
}

func (l *jobLock) release() {
	l.file.Close()
	held.Delete(l.key)
}
