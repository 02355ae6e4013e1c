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
	"time"

	"github.com/weirsync/weir/internal/backoff"
	"github.com/weirsync/weir/internal/source/lines"
)

// seenMax is how many bytes at the start of a followed file, and before the offset that was
// read to, tell that it is still the same.
const seenMax = lines.HeadMax

// A follower reads a file that grows. Its end comes only when the file was
// truncated or its path has become another file; reopen starts over from there.
//
// A file that was truncated and has since grown past the old offset is distinguished
// from one that only grew by the bytes that were read before: each read compares them.
type follower struct {
	ctx  context.Context
	path string
	file *os.File
	poll time.Duration
	log  *slog.Logger

	at    int64  // offset of the next read
	head  []byte // the first bytes of those before it
	last  []byte // the last of those
	check []byte // what is compared with them

	replaced  bool // path is another file since the last look
	truncated bool
}

// from has f read on from an offset. What is before it now is what is compared.
func (t *follower) from(at int64) (err error) {
	n := min(at, seenMax)
	t.at, t.head, t.last = at, make([]byte, n, seenMax), make([]byte, n)
	if _, err = t.file.ReadAt(t.head, 0); err == nil {
		_, err = t.file.ReadAt(t.last, at-n)
	}
	if err == io.EOF {
		err = nil // it is shorter than its checkpoint, which seek says
	}
	return err
}

// Read waits for data. When the path has become another file, the old one gets
// a last look after one more poll, because its writer may still be at it.
func (t *follower) Read(p []byte) (int, error) {
	for {
		if t.truncated {
			return 0, io.EOF
		}
		n, err := t.file.ReadAt(p, t.at)
		if err != nil && err != io.EOF {
			return 0, err
		}
		if n > 0 {
			if n, err = t.accept(p[:n]); n > 0 || err != nil {
				return n, err
			}
			continue
		}
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

// accept takes p, which was read at t.at, and returns its length, or 0 where it is of another
// content than what was read before.
func (t *follower) accept(p []byte) (int, error) {
	same, err := t.holds(t.head, 0)
	if same && err == nil {
		same, err = t.holds(t.last, t.at-int64(len(t.last)))
	}
	if !same && err == nil {
		// Truncated before the read or after it: in the latter case p is the old content's end.
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

// holds reports whether the file has the bytes of want at an offset.
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

// over reports whether the file will not grow any more. A path that is missing
// may be in the middle of a rename.
func (t *follower) over() (bool, error) {
	own, err := t.file.Stat()
	if err != nil {
		return false, err
	}
	if own.Size() < t.at {
		t.truncated = true
		return true, nil
	}
	seen := t.replaced
	now, err := os.Stat(t.path)
	t.replaced = err == nil && !os.SameFile(own, now)
	return seen && t.replaced, nil
}

// reopen goes to the start of the file that is read next: the one at path now, or one that was there
// between two looks.
func (t *follower) reopen() error {
	if t.truncated {
		t.log.Warn(fmt.Sprintf("%s was truncated: it is read again from its start; what was written to it after byte %d and before the truncation was not seen", t.path, t.at))
		t.truncated = false
		return t.from(0)
	}
	f, err := t.openNext()
	for errors.Is(err, fs.ErrNotExist) { // renamed once more
		if err := backoff.Sleep(t.ctx, t.poll); err != nil {
			return err
		}
		f, err = t.openNext()
	}
	if err != nil {
		return fmt.Errorf("follow %s over its rotation: %w", t.path, lines.Bare(err))
	}
	t.file.Close()
	t.file, t.replaced = f, false
	return t.from(0)
}

// openNext opens the file that is read next. The error is an [fs.ErrNotExist] if it was renamed meanwhile.
func (t *follower) openNext() (*os.File, error) {
	own, err := t.file.Stat()
	if err != nil {
		return nil, err
	}
	path, doubtful, err := successor(t.path, own)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	again, _, err := successor(t.path, own)
	if err == nil {
		err = sameFile(f, again)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	if len(doubtful) > 0 {
		t.log.Warn(fmt.Sprintf("%s was replaced, and it is not clear whether it was rotated more than once since the last look: if these were %s meanwhile, sync them too: %s",
			t.path, filepath.Base(t.path), strings.Join(doubtful, ", ")))
	}
	return f, nil
}

// sameFile returns an [fs.ErrNotExist] if the file at a path is not f.
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
