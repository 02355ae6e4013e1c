package job

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/lockfile"
	"github.com/weirsync/weir/internal/sink"
)

// RejectRules tell what happens to bad lines.
type RejectRules struct {
	To   Rejects
	Max  int64         // maximum of a run
	Age  time.Duration // how long the database keeps them; 0: forever
	Show string        // the command that prints them, for the user
}

// Rejects is where bad lines go.
type Rejects struct {
	mode rejectMode
	path string
}

type rejectMode int

const (
	keep    rejectMode = iota // in weir_rejects
	discard                   // dropped, but counted
	fail                      // ends the run
	toFile
)

// DiscardRejects only counts rejected lines.
var DiscardRejects = Rejects{mode: discard}

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
	return Rejects{}, fmt.Errorf("%q must be table, file:PATH, fail or discard", s)
}

// rejectLine is a line of the reject file.
type rejectLine struct {
	Job    string    `json:"job,omitempty"`
	Source string    `json:"source"`
	Line   int64     `json:"line"`
	Offset int64     `json:"offset"`
	Reason string    `json:"reason"`
	Raw    string    `json:"raw"`
	Time   time.Time `json:"time"`
	Mark   string    `json:"mark,omitempty"` // the ID of the job's file
}

// Path returns the path of the reject file, or "".
func (r *Rejects) Path() string { return r.path }

// Check returns an error if the reject file exists, is not empty, and was not written by weir.
func (r *Rejects) Check() error {
	if r.path == "" {
		return nil
	}
	f, err := os.Open(r.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	_, err = checkRejects(f)
	return errors.Join(err, f.Close())
}

// A rejectFile is the reject file of a run. It is locked, and stays open for all attempts. The flusher writes it. It is
// nil if bad lines go elsewhere.
type rejectFile struct {
	*lockfile.File
	path  string
	first rejectLine // first line when the file was opened
	size  int64      // committed size in bytes
	next  int64      // size once the current flush commits
	mark  string     // the ID of the job's file
}

// head matches the beginning of weir's lines.
var head = regexp.MustCompile(`^\{("job":"(\\.|[^"\\])*",)?"source":"(\\.|[^"\\])*","line":\d+,"offset":\d+,"reason":"`)

// checkRejects returns the first line of a reject file, or the zero value if there is no complete one. It returns an
// error for a file that weir did not write. Blank lines are left by [rejectFile.drop].
func checkRejects(f *os.File) (l rejectLine, err error) {
	lines := bufio.NewReaderSize(f, longest)
	for {
		c, err := lines.ReadByte()
		switch {
		case err == io.EOF:
			return l, nil
		case err != nil:
			return l, err
		case c == ' ' || c == '\n':
			continue
		}
		if err := lines.UnreadByte(); err != nil {
			return l, err
		}
		first, _ := lines.Peek(longest)
		if !head.Match(first) {
			return l, fmt.Errorf("%s holds something other than rejected lines that weir wrote: name another file", f.Name())
		}
		first, _, _ = bytes.Cut(first, newline)
		_ = json.Unmarshal(first, &l) // a crash may have torn it
		return l, nil
	}
}

// longest exceeds the length of any line in the file, even with its raw text escaped.
const longest = 1 << 20

// lockAt is the offset of the locked byte, beyond the end of any file.
const lockAt = 1 << 62

// open opens the reject file. It returns nil if the run has none.
func (r *Rejects) open() (_ *rejectFile, err error) {
	if r.mode != toFile {
		return nil, nil
	}
	f := &rejectFile{path: r.path}
	// The lines may contain anything that the feed does, so only the user may read them.
	if f.File, err = lockfile.Open(r.path); err != nil {
		return nil, fmt.Errorf("the file for rejects: %w", err)
	}
	if busy, err := f.Lock(lockAt); err != nil {
		return nil, errors.Join(fmt.Errorf("the file for rejects %s: %w", r.path, err), f.Close())
	} else if busy {
		return nil, errors.Join(fmt.Errorf("the file for rejects %s is in use by another run: name another file", r.path), f.Close())
	}
	if f.first, err = checkRejects(f.File.File); err == nil {
		f.size, err = f.Seek(0, io.SeekEnd)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// resume truncates what an uncommitted flush has written. unmarked means that the database does not have the file's ID
// yet, so it could not detect what a crash in the job's first flush leaves.
func (f *rejectFile) resume(ctx context.Context, claims sink.Claims) (unmarked bool, err error) {
	if f == nil {
		return false, nil
	}
	m, err := claims.RejectFile(ctx, f.path)
	switch mark := f.first.Mark; {
	case err != nil:
		return false, err
	case mark != "" && mark != m.ID:
		return false, fmt.Errorf("the file for rejects %s has lines that job %q wrote with another database, under another path, or before `weir forget` or a restore: move it away, or name another file", f.path, f.first.Job)
	case mark == "" && (m.ID == "" || m.Size > f.size): // it is new, or the old file was moved away
		f.size, f.mark, unmarked = 0, rand.Text(), true
	default:
		f.size, f.mark = min(m.Size, f.size), m.ID
	}
	if err := f.Truncate(f.size); err != nil || f.size == 0 {
		return unmarked, err
	}
	end := make([]byte, 1)
	if _, err = f.ReadAt(end, f.size-1); err == nil && end[0] != '\n' { // an editor has removed the newline
		_, err = f.WriteAt(newline, f.size)
		f.size++
	}
	return unmarked, err
}

// drop overwrites the lines of a source with spaces, up to an offset.
func (f *rejectFile) drop(to int64, source string) error {
	lines := bufio.NewReaderSize(io.NewSectionReader(f, 0, to), longest)
	for at := int64(0); at < to; {
		line, err := lines.ReadSlice('\n')
		if err != nil && err != io.EOF {
			return fmt.Errorf("reading rejects: %w", err)
		}
		var l rejectLine
		if json.Unmarshal(line, &l) == nil && l.Source == source {
			if _, err := f.WriteAt(bytes.Repeat([]byte{' '}, len(line)-1), at); err != nil {
				return fmt.Errorf("writing rejects: %w", err)
			}
		}
		at += int64(len(line))
	}
	return nil
}

// write appends the lines of a flush. It is called inside the flush's transaction, perhaps more than once.
func (f *rejectFile) write(flush *sink.Flush, rejects []fold.Reject) error {
	if f == nil {
		return nil
	}
	f.next = f.size
	if len(rejects) > 0 {
		if err := f.append(flush, rejects); err != nil {
			return fmt.Errorf("writing rejects: %w", err)
		}
	}
	flush.RejectFile = &sink.RejectFile{Path: f.path, Size: f.next, ID: f.mark}
	return nil
}

// append writes lines after the lines of the last flush. Each try begins at the same offset, so nothing is written
// twice.
func (f *rejectFile) append(flush *sink.Flush, rejects []fold.Reject) error {
	if err := f.Truncate(f.size); err != nil {
		return err
	}
	out := bufio.NewWriterSize(io.NewOffsetWriter(f, f.size), 64<<10)
	for i := range rejects {
		l := &rejects[i]
		line, err := json.Marshal(rejectLine{flush.Job, flush.Lanes[l.Lane].Source, l.Line, l.Offset, l.Why(), string(l.Text), time.Now().UTC(), f.mark})
		if err != nil {
			return err
		}
		f.next += int64(len(line)) + 1
		_, _ = out.Write(line) // Flush reports the error
		_ = out.WriteByte('\n')
	}
	return errors.Join(out.Flush(), f.Sync())
}

// committed makes the lines of a flush final. They replace the lines of a source that is read again.
func (f *rejectFile) committed(flush *sink.Flush) error {
	if f == nil {
		return nil
	}
	before := f.size
	f.size = f.next
	for i := range flush.Lanes {
		if !flush.Lanes[i].Restart {
			continue
		}
		if err := f.drop(before, flush.Lanes[i].Source); err != nil {
			return err
		}
	}
	return nil
}

func (f *rejectFile) close() error {
	if f == nil {
		return nil
	}
	return f.Close()
}
