package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// A follower reads a file that grows. Its end comes only when the file was
// truncated or its path has become another file; reopen goes on from there.
//
// A file that is truncated and written anew past the old offset between two
// looks is not told from one that grew.
type follower struct {
	ctx  context.Context
	path string
	file *os.File
	poll time.Duration
	warn func(string)

	replaced  bool // path is another file since the last look
	truncated bool
}

// Read waits for data. When the path has become another file, the old one gets
// a last look after one more poll, because its writer may still be at it.
func (t *follower) Read(p []byte) (int, error) {
	for {
		n, err := t.file.Read(p)
		if n > 0 || err != io.EOF {
			return n, err
		}
		if over, err := t.over(); err != nil {
			return 0, err
		} else if over {
			return 0, io.EOF
		}
		if err := t.wait(); err != nil {
			return 0, err
		}
	}
}

// over reports whether the file will not grow any more. A path that is missing
// may be in the middle of a rename.
func (t *follower) over() (bool, error) {
	own, err := t.file.Stat()
	if err != nil {
		return false, err
	}
	at, err := t.file.Seek(0, io.SeekCurrent)
	if err != nil {
		return false, err
	}
	if own.Size() < at {
		t.truncated = true
		return true, nil
	}
	seen := t.replaced
	now, err := os.Stat(t.path)
	t.replaced = err == nil && !os.SameFile(own, now)
	return seen && t.replaced, nil
}

// reopen goes to the start of the file that path is now.
func (t *follower) reopen() error {
	if t.truncated {
		t.truncated = false
		t.warn(t.path + " was truncated; it is read from its start again")
		if _, err := t.file.Seek(0, io.SeekStart); err != nil {
			return fmt.Errorf("read %s: %w", t.path, bare(err))
		}
		return nil
	}
	f, err := os.Open(t.path)
	for errors.Is(err, fs.ErrNotExist) { // renamed once more
		if err := t.wait(); err != nil {
			return err
		}
		f, err = os.Open(t.path)
	}
	if err != nil {
		return fmt.Errorf("follow %s over its rotation: %w", t.path, bare(err))
	}
	t.file.Close()
	t.file, t.replaced = f, false
	return nil
}

// wait waits for one poll interval.
func (t *follower) wait() error {
	timer := time.NewTimer(t.poll)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-t.ctx.Done():
		return t.ctx.Err()
	}
}
