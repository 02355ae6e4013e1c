package pipeline

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/lockfile"
	"github.com/weirsync/weir/internal/sink"
)

// Rejects says where bad lines go.
type Rejects struct {
	mode rejectMode
	path string
	file *os.File
	size int64  // of the file, as far as its lines count
	next int64  // the same after the flush at hand
	mark string // the ID of the job at hand's mark; "" for no job
	// unmarked tells that this mark is not in the database yet.
	unmarked bool
}

type rejectMode int

const (
	keep    rejectMode = iota // in weir_rejects
	discard                   // nowhere, counted
	fail                      // the run ends
	toFile
)

// ParseRejects reads the value of --rejects.
func ParseRejects(s string) (Rejects, error) {
	switch {
	case s == "table":
		return Rejects{mode: keep}, nil
	case s == "discard":
		return Rejects{mode: discard}, nil
	case s == "fail":
		return Rejects{mode: fail}, nil
	case strings.HasPrefix(s, "file:") && len(s) > len("file:"):
		path, err := filepath.Abs(s[len("file:"):])
		return Rejects{mode: toFile, path: path}, err
	}
	return Rejects{}, fmt.Errorf("%q is none of table, file:PATH, fail and discard", s)
}

// rejectLine is a line of the file of rejects.
type rejectLine struct {
	Job    string    `json:"job,omitempty"`
	Source string    `json:"source"`
	Line   int64     `json:"line"`
	Offset int64     `json:"offset"`
	Reason string    `json:"reason"`
	Raw    string    `json:"raw"`
	Time   time.Time `json:"time"`
	Mark   string    `json:"mark,omitempty"` // the ID of the job's mark
}

// rejectMark is what a checkpoint says of the file of rejects: the lines past the size that
// have its ID were written by a flush that did not commit.
type rejectMark struct {
	Path string `json:"path"`
	Size int64  `json:"size"`
	ID   string `json:"id"` // no other job has it, in this database or another
}

// lockAt is a byte of the file that it will never have.
const lockAt = 1 << 62

func (r *Rejects) open() (err error) {
	if r.mode != toFile {
		return nil
	}
	// The lines may hold anything that the feed does.
	if r.file, err = os.OpenFile(r.path, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return fmt.Errorf("the file for rejects: %w", err)
	}
	if busy, err := lockfile.Lock(r.file, lockAt); err != nil {
		return fmt.Errorf("the file for rejects %s: %w", r.path, err)
	} else if busy {
		return fmt.Errorf("the file for rejects %s is that of another run: take another one", r.path)
	}
	if r.size, err = r.file.Seek(0, io.SeekEnd); err == nil {
		err = r.mendEnd()
	}
	r.next = r.size
	return err
}

// longest is more than a line of the file takes, whose raw text may be escaped.
const longest = 1 << 20

// mendEnd cuts off a last line that a crash has torn. Of anything else that has no end
// what comes next must not become a part.
func (r *Rejects) mendEnd() error {
	end := make([]byte, min(r.size, longest))
	if _, err := r.file.ReadAt(end, r.size-int64(len(end))); err != nil || len(end) == 0 || end[len(end)-1] == '\n' {
		return err
	}
	torn := end[bytes.LastIndexByte(end, '\n')+1:]
	if bytes.HasPrefix(torn, []byte(`{"`)) {
		r.size -= int64(len(torn))
		return r.file.Truncate(r.size)
	}
	_, err := r.file.WriteAt(newline, r.size)
	r.size++
	return err
}

// resume takes the state of the job that was claimed.
func (r *Rejects) resume(job, mark string) error {
	if r.mode != toFile {
		return nil
	}
	var m rejectMark
	if mark != "" {
		if err := json.Unmarshal([]byte(mark), &m); err != nil {
			return fmt.Errorf("the checkpoint's file of rejects: %w", err)
		}
	}
	r.mark, r.unmarked = "", false
	switch {
	case m.Path == r.path && m.ID != "" && m.Size <= r.size:
		r.mark = m.ID
		return r.drop(m.Size)
	case job != "": // else what a crash of its first flush leaves would stay
		r.mark, r.unmarked = rand.Text(), true
	}
	return nil
}

// drop removes the job's lines behind its mark, which a flush left that did not commit.
// Among them may lie lines of other jobs, to whose place their marks refer: so they become
// blank, unless they are the end.
func (r *Rejects) drop(from int64) error {
	tail := make([]byte, r.size-from)
	if _, err := r.file.ReadAt(tail, from); err != nil {
		return fmt.Errorf("reading rejects: %w", err)
	}
	end, drops := 0, false // of the last line that stays
	for rest := tail; len(rest) > 0; {
		n := bytes.IndexByte(rest, '\n') + 1
		if n == 0 {
			n = len(rest)
		}
		var l rejectLine
		if err := json.Unmarshal(rest[:n], &l); err == nil && l.Mark == r.mark {
			drops = true
			copy(rest, bytes.Repeat([]byte{' '}, n-1))
		} else {
			end = len(tail) - len(rest) + n
		}
		rest = rest[n:]
	}
	if !drops {
		return nil
	}
	r.size = from + int64(end)
	r.next = r.size
	_, err := r.file.WriteAt(tail[:end], from)
	return errors.Join(err, r.file.Truncate(r.size))
}

// write is called inside the flush's transaction, perhaps more than once.
func (r *Rejects) write(f *sink.Flush, rejects []fold.Reject, cp *sink.Checkpoint) error {
	switch {
	case r.mode == fail && len(rejects) > 0:
		return fmt.Errorf("%w: %s line %d (byte %d): %s", ErrRejected, f.Source, rejects[0].Line, rejects[0].Offset, rejects[0].Detail)
	case r.mode != toFile:
		return nil
	}
	var lines []byte
	for i := range rejects {
		line, err := json.Marshal(rejectLine{f.Job, f.Source, rejects[i].Line, rejects[i].Offset,
			string(rejects[i].Reason) + ": " + rejects[i].Detail, string(rejects[i].Text), time.Now().UTC(), r.mark})
		if err != nil {
			return err
		}
		lines = append(append(lines, line...), '\n')
	}
	if len(lines) > 0 {
		// Each try begins at the same place, so that nothing is there twice.
		err := r.file.Truncate(r.size)
		if err == nil {
			_, err = r.file.WriteAt(lines, r.size)
		}
		if err == nil {
			err = r.file.Sync()
		}
		if err != nil {
			return fmt.Errorf("writing rejects: %w", err)
		}
	}
	r.next = r.size + int64(len(lines))
	mark, err := json.Marshal(rejectMark{r.path, r.next, r.mark})
	cp.Rejects = string(mark)
	return err
}

// committed makes the lines of a flush final.
func (r *Rejects) committed() { r.size = r.next }

func (r *Rejects) close() error {
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}
