package sqlite

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"strings"
	"sync"

	lib "modernc.org/sqlite/lib"

	"github.com/weirsync/weir/internal/lockfile"
	"github.com/weirsync/weir/internal/sink"
)

// Claims are the [sink.Claims] of one job in one file. A lane is held by a lock on one byte of a file next to the
// database; the system releases it when the process ends, however it ends. (The database's own locks end with each
// transaction.)
type Claims struct {
	sink.JobLedger
	path string // of the database
	opt  sink.Options

	mu    sync.Mutex
	locks *lockfile.File  // nil until something is claimed
	lanes map[string]bool // lanes held
	// shared: the job's byte is locked, with other runs. A Take locks it, and the end of the claims unlocks it.
	shared bool
}

var _ sink.Claims = (*Claims)(nil)

// OpenClaims returns claims of a job in the database at path. It does not create a database: if there is none, no
// checkpoints are found and nothing can be claimed.
func OpenClaims(_ context.Context, path, job string, o sink.Options) (*Claims, error) {
	c := &Claims{path: realPath(path), opt: o, lanes: map[string]bool{}}
	c.JobLedger = sink.JobLedger{Ledger: sink.Ledger{Query: c.query}, Job: job}
	return c, nil
}

// Take implements [sink.Claims].
func (c *Claims) Take(ctx context.Context, lanes ...string) (found []sink.Checkpoint, err error) {
	err = c.locking(ctx, func() error {
		added, err := c.lock(lanes)
		if err == nil {
			found, err = c.Checkpoints(ctx, lanes...)
		}
		if err != nil {
			return errors.Join(err, c.unlock(added))
		}
		return nil
	})
	return found, err
}

// TakeJob implements [sink.Claims].
func (c *Claims) TakeJob(ctx context.Context) error {
	return c.locking(ctx, func() error { return c.hold(c.locks.Lock) })
}

// locking opens the lock file and calls f, which locks something.
func (c *Claims) locking(ctx context.Context, f func() error) (err error) {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.locks == nil {
		if c.locks, err = lockfile.OpenLike(c.path+"-weir", c.path); err != nil {
			c.locks = nil
			return fmt.Errorf("opening the file of locks: %w", err)
		}
	}
	return f()
}

// Drop implements [sink.Claims].
func (c *Claims) Drop(_ context.Context, lanes ...string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unlock(lanes)
}

// Close implements [sink.Claims].
func (c *Claims) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.locks == nil {
		return nil
	}
	err := c.locks.Close()
	c.locks, c.shared = nil, false
	clear(c.lanes)
	return err
}

// lock locks lanes, and returns those that it did not already hold.
func (c *Claims) lock(lanes []string) (added []string, err error) {
	if !c.shared {
		if err := c.hold(c.locks.LockShared); err != nil {
			return nil, err
		}
		c.shared = true
	}
	for _, lane := range lanes {
		if c.lanes[lane] {
			continue
		}
		if err := c.hold(c.locks.Lock, lane); err != nil {
			return added, err
		}
		c.lanes[lane] = true
		added = append(added, lane)
	}
	return added, nil
}

// unlock unlocks lanes, except lanes that are not held.
func (c *Claims) unlock(lanes []string) (err error) {
	for _, lane := range lanes {
		if c.lanes[lane] {
			err = errors.Join(err, c.locks.Unlock(c.at(lane)))
			delete(c.lanes, lane)
		}
	}
	return err
}

// hold locks the byte of the job, or of one of its lanes.
func (c *Claims) hold(lock func(at int64) (busy bool, err error), lane ...string) error {
	busy, err := lock(c.at(lane...))
	switch {
	case busy:
		return sink.BusyError{Job: c.Job, Lane: strings.Join(lane, "")}
	case err != nil:
		return fmt.Errorf("locking a byte of %s-weir: %w", c.path, err)
	}
	return nil
}

// at returns the byte's offset for the job, or for one of its lanes.
func (c *Claims) at(lane ...string) int64 {
	h := fnv.New64a()
	h.Write([]byte(c.Job))
	for _, l := range lane {
		h.Write([]byte{0})
		h.Write([]byte(l))
	}
	return int64(h.Sum64() >> 2)
}

// query implements [sink.Ledger].Query with its own connection. The connection is writable, because only then can it
// recover a file that another process has left in the middle of a transaction; sql must not write.
func (c *Claims) query(ctx context.Context, sql func(sink.Dialect) string) ([][][]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if _, err := os.Stat(c.path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	f := file{path: c.path, opt: Options{Options: c.opt}}
	if err := f.open(ctx, lib.SQLITE_OPEN_READWRITE); err != nil {
		return nil, err
	}
	defer f.disconnect()
	return f.query(ctx, sql)
}
