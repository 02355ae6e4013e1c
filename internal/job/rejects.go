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

// Rejects says where bad lines go.
type Rejects struct {
	mode  rejectMode
	path  string
	topic string
	file  *lockfile.File
	first rejectLine // of the file when it was opened
	size  int64      // of the file, as far as its lines count
	next  int64      // the same after the flush at hand
	mark  string     // the ID of the job's file
}

type rejectMode int

const (
	keep    rejectMode = iota // in weir_rejects
	discard                   // nowhere, counted
	fail                      // the run ends
	toFile
	toTopic // of Kafka, by way of weir_rejects
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
	case strings.HasPrefix(s, "topic:"):
		topic := s[len("topic:"):]
		return Rejects{mode: toTopic, topic: topic}, nil
	}
	return Rejects{}, fmt.Errorf("%q is none of table, file:PATH, topic:NAME, fail and discard", s)
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
	Mark   string    `json:"mark,omitempty"` // the ID of the job's file
}

// Path returns the path of the file, "" where there is none.
func (r *Rejects) Path() string { return r.path }

// Topic returns the topic of dead letters, "" where there is none.
func (r *Rejects) Topic() string { return r.topic }

// Check reports whether the file may be written: it is one of rejects, empty or missing.
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
	_, err = r.check(f)
	return errors.Join(err, f.Close())
}

// head is how weir's lines begin.
var head = regexp.MustCompile(`^\{("job":"(\\.|[^"\\])*",)?"source":"(\\.|[^"\\])*","line":\d+,"offset":\d+,"reason":"`)

// check returns the first line of the file, the zero value if there is no whole one, or an error for a file that is not
// weir's. Blank lines are where [Rejects.drop] was.
func (r *Rejects) check(f *os.File) (l rejectLine, err error) {
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
			return l, fmt.Errorf("%s holds something other than rejected lines that weir wrote: name another file", r.path)
		}
		first, _, _ = bytes.Cut(first, newline)
		_ = json.Unmarshal(first, &l) // or a crash has torn it
		return l, nil
	}
}

// longest is more than a line of the file takes, whose raw text may be escaped.
const longest = 1 << 20

// lockAt is a byte of the file that it will never have.
const lockAt = 1 << 62

func (r *Rejects) open() (err error) {
	if r.mode != toFile {
		return nil
	}
	// The lines may hold anything that the feed does.
	if r.file, err = lockfile.Open(r.path); err != nil {
		return fmt.Errorf("the file for rejects: %w", err)
	}
	if busy, err := r.file.Lock(lockAt); err != nil {
		return fmt.Errorf("the file for rejects %s: %w", r.path, err)
	} else if busy {
		return fmt.Errorf("the file for rejects %s is that of another run: take another one", r.path)
	}
	if r.first, err = r.check(r.file.File); err != nil {
		return err
	}
	r.size, err = r.file.Seek(0, io.SeekEnd)
	return err
}

// resume cuts off what a flush has written that did not commit. unmarked tells that the
// database does not know the file yet: what a crash of the job's first flush leaves would
// stay.
func (r *Rejects) resume(ctx context.Context, claims sink.Claims) (unmarked bool, err error) {
	if r.mode != toFile {
		return false, nil
	}
	m, err := claims.RejectFile(ctx, r.path)
	switch mark := r.first.Mark; {
	case err != nil:
		return false, err
	case mark != "" && mark != m.ID:
		return false, fmt.Errorf("the file for rejects %s has lines that job %q wrote beside another database, or under another path, or before `weir forget` or a restore: move it away, or name another file", r.path, r.first.Job)
	case mark == "" && (m.ID == "" || m.Size > r.size): // it is new, or was moved away
		r.size, r.mark, unmarked = 0, rand.Text(), true
	default:
		r.size, r.mark = min(m.Size, r.size), m.ID
	}
	if err := r.file.Truncate(r.size); err != nil || r.size == 0 {
		return unmarked, err
	}
	end := make([]byte, 1)
	if _, err = r.file.ReadAt(end, r.size-1); err == nil && end[0] != '\n' { // an editor was there
		_, err = r.file.WriteAt(newline, r.size)
		r.size++
	}
	return unmarked, err
}

// drop makes the lines of a source blank that are in a part of the file.
func (r *Rejects) drop(to int64, source string) error {
	lines := bufio.NewReaderSize(io.NewSectionReader(r.file, 0, to), longest)
	for at := int64(0); at < to; {
		line, err := lines.ReadSlice('\n')
		if err != nil && err != io.EOF {
			return fmt.Errorf("reading rejects: %w", err)
		}
		var l rejectLine
		if json.Unmarshal(line, &l) == nil && l.Source == source {
			if _, err := r.file.WriteAt(bytes.Repeat([]byte{' '}, len(line)-1), at); err != nil {
				return fmt.Errorf("writing rejects: %w", err)
			}
		}
		at += int64(len(line))
	}
	return nil
}

// write is called inside the flush's transaction, perhaps more than once.
func (r *Rejects) write(f *sink.Flush, rejects []fold.Reject) error {
	if r.mode != toFile {
		return nil
	}
	r.next = r.size
	if len(rejects) > 0 {
		if err := r.append(f, rejects); err != nil {
			return fmt.Errorf("writing rejects: %w", err)
		}
	}
	f.RejectFile = &sink.RejectFile{Path: r.path, Size: r.next, ID: r.mark}
	return nil
}

// append writes lines behind those of the last flush: each try begins at the same place,
// so that nothing is written twice.
func (r *Rejects) append(f *sink.Flush, rejects []fold.Reject) error {
	if err := r.file.Truncate(r.size); err != nil {
		return err
	}
	out := bufio.NewWriterSize(io.NewOffsetWriter(r.file, r.size), 64<<10)
	for i := range rejects {
		l := &rejects[i]
		line, err := json.Marshal(rejectLine{f.Job, f.Lanes[l.Lane].Source, l.Line, l.Offset, l.Why(), string(l.Text), time.Now().UTC(), r.mark})
		if err != nil {
			return err
		}
		r.next += int64(len(line)) + 1
		_, _ = out.Write(line) // Flush says what went wrong
		_ = out.WriteByte('\n')
	}
	return errors.Join(out.Flush(), r.file.Sync())
}

// committed makes the lines of a flush final. They take the place of those of a source
// that is read again.
func (r *Rejects) committed(f *sink.Flush) error {
	before := r.size
	r.size = r.next
	if r.mode != toFile {
		return nil
	}
	for i := range f.Lanes {
		if !f.Lanes[i].Restart {
			continue
		}
		if err := r.drop(before, f.Lanes[i].Source); err != nil {
			return err
		}
	}
	return nil
}

func (r *Rejects) close() error {
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}
