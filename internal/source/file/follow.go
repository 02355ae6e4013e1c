package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weirsync/weir/internal/backoff"
	"github.com/weirsync/weir/internal/source/lines"
)

// seenMax is how many bytes, at the start of a followed file and before the current offset, are compared to detect that
// the file was replaced.
const seenMax = lines.HeadMax

// A follower reads a file that grows. It reports the end only if the file was truncated or its path names another file
// now; reopen continues with that one. A bounded one also ends there.
//
// A file may be truncated and then grow past the old offset. Each read therefore compares the bytes that were read
// before.
type follower struct {
	ctx        context.Context
	path       string
	file       *os.File
	bounded    bool // does not wait for more in the file at path
	poll       time.Duration
	rotateWait time.Duration // see Options
	log        *slog.Logger

	at    int64  // offset of the next read
	head  []byte // the first bytes read
	last  []byte // the last bytes read
	check []byte // buffer to compare with them

	next      []*os.File // to read after this one: what path has named since, in order
	grown     time.Time  // when this one was last seen to grow, or to be replaced
	truncated bool
	idle      atomic.Bool // nothing was there to read at the last poll

	before late       // the file that was read before this one
	late   [4096]byte // buffer to count its lines
}

// late is a file that was replaced and read to its end. For a while it is watched for lines that come later.
type late struct {
	file  *os.File // nil: none
	at    int64    // offset up to which it was read or counted
	until time.Time
}

// lateFor is how long a file is watched that was replaced. It keeps the disk space of a file that is removed.
const lateFor = time.Minute

// from continues at an offset. It records the bytes before it, for later comparison.
func (t *follower) from(at int64) (err error) {
	n := min(at, seenMax)
	t.at, t.head, t.last = at, make([]byte, n, seenMax), make([]byte, n)
	if _, err = t.file.ReadAt(t.head, 0); err == nil {
		_, err = t.file.ReadAt(t.last, at-n)
	}
	if err == io.EOF {
		err = nil // shorter than its checkpoint; seek reports it
	}
	return err
}

// Read waits for data. When the path names another file, the old one is read until it has not grown for rotateWait,
// because its writer may still have it open. The new one is opened at once, because it may be renamed, compressed and
// removed in turn.
func (t *follower) Read(p []byte) (int, error) {
	for {
		if t.truncated {
			return 0, io.EOF
		}
		n, err := t.file.ReadAt(p, t.at)
		if err != nil && err != io.EOF {
			return 0, err
		}
		t.idle.Store(n == 0)
		if n > 0 {
			t.grown = time.Now()
			if n, err = t.accept(p[:n]); n > 0 || err != nil {
				return n, err
			}
			continue
		}
		t.countLate()
		if over, err := t.over(); err != nil {
			return 0, err
		} else if over {
			return 0, io.EOF
		}
		if err := backoff.Sleep(t.ctx, t.poll); err != nil {
			return 0, err
		}
	}
}

// accept checks p, which was read at t.at, against the bytes read before. It returns len(p), or 0 if the content has
// changed.
func (t *follower) accept(p []byte) (int, error) {
	same, err := t.holds(t.head, 0)
	if same && err == nil {
		same, err = t.holds(t.last, t.at-int64(len(t.last)))
	}
	if !same && err == nil {
		// Truncated before or after the read. If after, p is the end of the old content.
		t.truncated = true
		var after bool
		if after, err = t.holds(p, t.at); after {
			return 0, err
		}
	}
	if err != nil {
		return 0, err
	}
	t.at += int64(len(p))
	t.head = lines.Extend(t.head, p)
	t.last = append(t.last, p[max(0, len(p)-seenMax):]...)
	t.last = t.last[max(0, len(t.last)-seenMax):]
	return len(p), nil
}

// holds reports whether the file contains want at an offset.
func (t *follower) holds(want []byte, at int64) (bool, error) {
	if cap(t.check) < len(want) {
		t.check = make([]byte, len(want))
	}
	n, err := t.file.ReadAt(t.check[:len(want)], at)
	if err == io.EOF {
		err = nil
	}
	return err == nil && bytes.Equal(t.check[:n], want), err
}

// over reports whether the file will not grow any more. If its path is missing, it may be in the middle of a rename.
func (t *follower) over() (bool, error) {
	own, err := t.file.Stat()
	if err != nil {
		return false, err
	}
	if own.Size() < t.at {
		t.truncated = true
		return true, nil
	}
	known, began := len(t.next), time.Now()
	for err = t.openNext(); errors.Is(err, fs.ErrPermission) && time.Since(began) < t.rotateWait; err = t.openNext() {
		if err := backoff.Sleep(t.ctx, t.poll); err != nil { // its owner and mode may be set only now
			return false, err
		}
	}
	switch {
	case len(t.next) == 0:
		return t.bounded, err
	case known == 0:
		t.grown = time.Now()
		t.log.Info(fmt.Sprintf("%s was replaced: the old file is read until it has not grown for %s", t.path, t.rotateWait))
		return false, err
	}
	return time.Since(t.grown) >= t.rotateWait, err
}

// atEnd reports whether no file follows this one.
func (t *follower) atEnd() bool {
	if !t.bounded || t.truncated || len(t.next) > 0 {
		return false
	}
	_, err := os.Stat(t.path)
	return err != nil || sameFile(t.file, t.path) == nil
}

// countLate warns of lines that were written to the file before this one after it was read to its end.
func (t *follower) countLate() {
	b := &t.before
	if b.file == nil {
		return
	}
	for count := 0; ; {
		n, err := b.file.ReadAt(t.late[:], b.at)
		b.at += int64(n)
		count += bytes.Count(t.late[:n], []byte("\n"))
		if err == nil {
			continue
		}
		if count > 0 {
			t.log.Warn(fmt.Sprintf("%s: lines written to the file before it, more than %s after its rotation: %d; they are not read (--rotate-wait waits longer)", t.path, t.rotateWait, count))
		}
		break
	}
	if time.Now().After(b.until) {
		t.forgetLate()
	}
}

func (t *follower) forgetLate() {
	if t.before.file != nil {
		t.before.file.Close()
	}
	t.before = late{}
}

// close closes the follower's files.
func (t *follower) close() error {
	t.countLate()
	t.forgetLate()
	for _, f := range t.next {
		f.Close()
	}
	return t.file.Close()
}

// reopen moves to the start of the next file: the one at path now, or one that was there between two polls.
func (t *follower) reopen() error {
	if t.truncated {
		t.log.Warn(fmt.Sprintf("%s was truncated: it is read again from its start; what was written to it after byte %d and before the truncation was not seen", t.path, t.at))
		t.truncated = false
		return t.from(0)
	}
	for len(t.next) == 0 {
		if err := t.openNext(); err != nil {
			return err
		} else if len(t.next) == 0 { // being renamed
			if err := backoff.Sleep(t.ctx, t.poll); err != nil {
				return err
			}
		}
	}
	t.countLate()
	t.forgetLate()
	t.before = late{t.file, t.at, time.Now().Add(lateFor)}
	t.file, t.next, t.grown = t.next[0], t.next[1:], time.Now()
	return t.from(0)
}

// newest returns the last file of this one and those after it.
func (t *follower) newest() *os.File {
	if n := len(t.next); n > 0 {
		return t.next[n-1]
	}
	return t.file
}

// openNext opens the successor of the newest file, if path names another one.
func (t *follower) openNext() error {
	if sameFile(t.newest(), t.path) == nil {
		return nil
	}
	path, doubtful, err := t.successor()
	var f *os.File
	if err == nil {
		f, err = os.Open(path)
	}
	if err == nil {
		if path, _, err = t.successor(); err == nil {
			err = sameFile(f, path)
		}
		if err != nil {
			f.Close()
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist): // it is being renamed
		return nil
	case err != nil:
		return fmt.Errorf("follow %s over its rotation: %w", t.path, lines.Bare(err))
	}
	t.next = append(t.next, f)
	if len(doubtful) > 0 {
		t.log.Warn(fmt.Sprintf("%s was removed, and perhaps replaced more than once since weir last looked: if these were %s meanwhile, sync them too: %s",
			t.path, filepath.Base(t.path), strings.Join(doubtful, ", ")))
	}
	return nil
}

// sameFile returns an [fs.ErrNotExist] unless the file at path is f.
func sameFile(f *os.File, path string) error {
	own, err := f.Stat()
	if err != nil {
		return err
	}
	now, err := os.Stat(path)
	if err == nil && !os.SameFile(own, now) {
		err = fs.ErrNotExist
	}
	return err
}
