package spool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirsync/weir/internal/quantity"
	"github.com/weirsync/weir/internal/source"
)

const (
	maxSegment = 64 << 20 // bytes of a spool's segment
	minSegment = 64 << 10
	segments   = 8         // the minimum for which a spool has room
	captureAge = time.Hour // age at which a segment of captures is sealed
	// roomPoll is how long a pause lasts before it is reported, and how often a full disk is retried.
	roomPoll = time.Second
)

// A store is a log for the lines of one source, in folders that no other run may use.
type store struct {
	c       *Config
	failed  context.Context // ends when the disk fails; its cause says why
	setFail context.CancelCauseFunc
	running context.Context // ends with stop, or when the disk fails
	cancel  context.CancelFunc

	// Set by open:
	log      *Log // nil before
	folders  []io.Closer
	captures *Captures // nil if there are none

	// Set by start:
	level       *level
	keeping     sync.WaitGroup // the goroutine of syncLoop
	forgetting  sync.Mutex
	captureFull atomic.Bool // the captures' disk is full
}

func newStore(c *Config) *store {
	s := &store{c: c}
	s.failed, s.setFail = context.WithCancelCause(context.Background())
	s.running, s.cancel = context.WithCancel(s.failed)
	return s
}

// path returns the log's folder.
func (s *store) path() string {
	if s.c.Dir == "" {
		return filepath.Join(s.c.Capture, ownDir)
	}
	return s.c.Dir
}

// open locks the folders, and opens the log: in the spool's folder, or in the captures' if there is no spool.
func (s *store) open() (err error) {
	var dir *Dir
	if s.c.Dir != "" {
		if dir, err = OpenDir(s.c.Dir); err != nil {
			return fmt.Errorf("the spool: %w", err)
		}
		s.folders = append(s.folders, dir)
	}
	if s.c.Capture != "" {
		if s.captures, err = OpenCaptures(s.c.Capture, s.c.KeepCaptures); err != nil {
			return errors.Join(fmt.Errorf("the capture: %w", err), s.closeFolders())
		}
		s.folders = append(s.folders, s.captures)
	}
	return s.openLog(dir)
}

// openLog opens the log in a folder; nil is the captures' folder.
func (s *store) openLog(dir *Dir) (err error) {
	size, age := min(max(s.c.Max/segments, minSegment), maxSegment), time.Duration(0)
	if dir == nil {
		dir, size = s.captures.Dir, maxSegment
	}
	if s.captures != nil {
		age = captureAge
	}
	if s.log, err = Open(dir, size, age); err != nil {
		return errors.Join(s.explain(err), s.closeFolders())
	}
	if lost := s.log.Lost(); lost > 0 {
		s.c.Log.Warn(fmt.Sprintf("the spool %s: its end was not synced when the last run ended, and is incomplete: %s were cut off", s.path(), quantity.BinaryBytes(lost)))
	}
	return nil
}

// start starts syncing. All lines before next are committed.
func (s *store) start(next int64, gauge func(bytes int64)) {
	s.level = newLevel(s.log, next, gauge)
	s.keeping.Go(func() {
		if err := s.syncLoop(); err != nil {
			s.fail(err)
		}
	})
}

// syncLoop syncs the log each period, and removes what is committed, until stop or a disk failure.
func (s *store) syncLoop() error {
	tick := time.NewTicker(s.c.Period)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := s.log.Sync(); err != nil {
				return err
			}
			if err := s.forget(false); err != nil {
				return err
			}
		case <-s.running.Done():
			return s.log.Sync()
		}
	}
}

// forget removes the segments whose lines are committed. With final, nothing is appended meanwhile, and the last
// segment may be removed, too. If the captures' disk is full they stay for now.
func (s *store) forget(final bool) error {
	s.forgetting.Lock()
	defer s.forgetting.Unlock()
	var capture func(time.Time, io.Reader) error
	if s.captures != nil {
		capture = s.captures.Add
	}
	before := s.log.Size()
	err := s.log.Forget(s.level.committedTo(), final, capture)
	if s.log.Size() < before {
		signal(s.level.changed)
	}
	if s.captures != nil && IsFull(err) {
		if !s.captureFull.Swap(true) {
			s.c.Log.Warn("the capture's disk is full: its lines stay where they are until there is room")
		}
		return nil
	}
	s.captureFull.Store(false)
	return err
}

// stop syncs the log for the last time, and waits for it.
func (s *store) stop() {
	s.cancel()
	s.keeping.Wait()
}

// append writes lines, with their last resume value, to disk, and returns the offset of the first. It waits while there
// is no room. A disk error ends the run.
func (s *store) append(ctx context.Context, lines []byte, resume string) (at int64, err error) {
	if at, err = s.appendWithRoom(ctx, lines, resume); err != nil && !errors.Is(err, ctx.Err()) {
		s.fail(err)
	}
	return at, err
}

func (s *store) appendWithRoom(ctx context.Context, lines []byte, resume string) (at int64, err error) {
	start, reported := time.Now(), Reading
	defer func() {
		if reported != Reading {
			s.c.Paused(Reading)
		}
	}()
	for {
		size := s.log.Size()
		full := s.c.Dir != "" && size > 0 && size+int64(len(lines)) > s.c.Max
		if full && s.level.left() == 0 {
			// Only the segment to append to is left.
			if err := s.forget(true); err != nil {
				return 0, err
			}
			full = s.log.Size() > 0
		}
		if !full {
			if at, err = s.log.Append(lines, resume); err == nil {
				break
			} else if !IsFull(err) {
				return 0, err
			}
		}
		if why := s.pause(full); why != reported && time.Since(start) >= roomPoll {
			reported = why
			s.c.Paused(why)
		}
		if err := s.level.wait(ctx, roomPoll); err != nil {
			return 0, err
		}
	}
	s.level.appended()
	return at, nil
}

// pause returns why reading is paused: full says that the log has reached its limit; otherwise its disk is full.
func (s *store) pause(full bool) Pause {
	switch {
	case s.c.Dir == "", full && s.captureFull.Load():
		return CaptureDiskFull
	case full:
		return Full
	}
	return DiskFull
}

// fail records a disk error, if it is the first.
func (s *store) fail(err error) {
	failed := s.explain(err)
	for _, path := range []string{s.c.Dir, s.c.Capture} {
		if _, gone := os.Stat(path); path != "" && errors.Is(gone, fs.ErrNotExist) {
			failed = fmt.Errorf("the folder %s was removed or renamed during the run: %w", path, err)
			break
		}
	}
	s.setFail(failed)
}

// failure returns the disk error, or nil.
func (s *store) failure() error { return context.Cause(s.failed) }

// explain adds advice to an error of the log.
func (s *store) explain(err error) error {
	err = fmt.Errorf("the spool %s: %w", s.path(), err)
	if !errors.As(err, new(*DamageError)) {
		return err
	}
	after := "sync them separately, and then start this run again"
	if s.c.Repeats {
		after = "the next run asks the feed again for what is not committed"
	}
	return fmt.Errorf("%w: move %s/*.jsonl to another folder: %s", err, s.path(), after)
}

// closeWith closes the source and the log, after stop. It removes committed lines unless the disk has failed; the error
// is then failure's.
func (s *store) closeWith(in source.Source) error {
	err := in.Close()
	if failed := s.failure(); failed != nil {
		_ = s.close() // its error has the same cause
		return failed
	}
	return errors.Join(err, s.forget(true), s.close())
}

func (s *store) close() error { return errors.Join(s.log.Close(), s.closeFolders()) }

func (s *store) closeFolders() (err error) {
	for _, f := range s.folders {
		err = errors.Join(err, f.Close())
	}
	return err
}
