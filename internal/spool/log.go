// Package spool keeps lines on disk, in a log of segments. A segment is a plain file of lines with a file of checksums.
// Its name is its offset in the log and its start time, so names sort in the order of the lines.
//
// Everything read is compared with its checksum. After a crash the log ends after the last whole run of lines. If more
// than that had been synced, the disk has damaged it, which is an error.
package spool

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Log is a sequence of lines: new ones are appended, committed ones are forgotten. One goroutine appends, one reads,
// and one at a time syncs and forgets. None waits for a sync, except an Append that starts a segment.
type Log struct {
	Meta  Meta             // what was last passed to Reset; read-only
	Lost  int64            // bytes of incomplete runs that Open cut off
	Gauge func(left int64) // called with the number of uncommitted bytes, under a lock

	fs       FS
	segment  int64 // minimum bytes of a segment, unless it is old
	max      int64 // bytes for which there is room
	age      time.Duration
	reader   reader        // of Read
	diskFull bool          // for the last Append; whoever appends owns it
	grown    chan struct{} // has a value when there may be more to read

	mu        sync.Mutex // held briefly, never during disk operations
	segments  []*segment // appended to at the last one
	end       int64      // offset after the last line
	committed int64      // everything before it is committed
}

// Meta is what a log records about itself.
type Meta struct {
	Format int    `json:"format"`
	ID     string `json:"id"` // unique among all logs
	Job    string `json:"job"`
	Source string `json:"source"`
	Seq    int64  `json:"seq"` // the job's last flush before the log was begun
}

const (
	format   = 2
	metaName = "spool.json"
)

var errFull = errors.New("the log has its maximum size")

// Open opens the log in a folder, with room for max bytes. A new segment starts when the last one has at least this size
// or, if it is not 0, this age. Damage is a *DamageError. Open does not find all damage; Read and Forget find the rest.
func Open(fs FS, segment, max int64, age time.Duration) (*Log, error) {
	l := &Log{fs: fs, segment: segment, max: max, age: age, Gauge: func(int64) {}, grown: make(chan struct{}, 1)}
	err := l.open()
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func (l *Log) open() error {
	var meta error
	names, err := l.fs.Names()
	if slices.Contains(names, metaName) {
		meta = l.readMeta()
	}
	slices.Sort(names)
	for _, name := range names {
		base, ext := strings.TrimSuffix(name, path.Ext(name)), path.Ext(name)
		switch s := namedSegment(base); {
		case s != nil && ext == sumsExt && !slices.Contains(names, base+dataExt): // left by a crash
			err = errors.Join(err, l.fs.Remove(name))
		case s != nil && ext == dataExt:
			err = errors.Join(err, s.open(l.fs, slices.Contains(names, base+sumsExt)))
			l.segments = append(l.segments, s)
		}
	}
	if len(l.segments) > 0 { // otherwise a crash may have cut it
		err = cmp.Or(meta, err)
	}
	// Every segment is synced before the next one starts, so a crash can damage only the last.
	for i, s := range l.segments {
		switch {
		case err != nil:
		case i == len(l.segments)-1:
			l.Lost, err = s.recover()
			l.end = s.end()
		case s.end() != l.segments[i+1].base:
			at, size := min(s.end(), l.segments[i+1].base)-s.base, s.end()-l.segments[i+1].base
			err = &DamageError{s.name() + dataExt, at, max(size, -size)}
		}
	}
	return err
}

// Bounds returns the offsets of the first line and after the last one.
func (l *Log) Bounds() (begin, end int64) {
	begin, _, end, _ = l.bounds()
	return begin, end
}

// bounds returns the offsets of the first line, of the first uncommitted line, and after the last one. last is the
// segment to append to, or nil.
func (l *Log) bounds() (begin, committed, end int64, last *segment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	begin = l.end
	if n := len(l.segments); n > 0 {
		begin, last = l.segments[0].base, l.segments[n-1]
	}
	return begin, l.committed, l.end, last
}

// Commit records that all lines before an offset are committed.
func (l *Log) Commit(at int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.committed = max(l.committed, at)
	l.Gauge(l.end - l.committed)
}

// Reset empties the log, as Forget does, and continues it at an offset. Nothing else may use it meanwhile.
func (l *Log) Reset(m Meta, at int64, archive Archive) error {
	l.committed = l.end
	if err := l.Forget(true, archive); err != nil {
		return err
	}
	m.Format = format
	l.end, l.committed, l.Meta = at, 0, m
	f, err := l.fs.Open(metaName)
	if err != nil {
		return err
	}
	text, _ := json.Marshal(m) // strings and numbers cannot fail
	_, err = f.WriteAt(text, 0)
	return errors.Join(err, f.Truncate(int64(len(text))), f.Sync(), f.Close(), l.fs.Sync())
}

// readMeta reads what Reset has written.
func (l *Log) readMeta() error {
	f, err := l.fs.Open(metaName)
	if err == nil {
		err = json.NewDecoder(io.NewSectionReader(f, 0, math.MaxInt64)).Decode(&l.Meta)
		err = errors.Join(err, f.Close())
	}
	if err == nil && l.Meta.Format != format {
		err = fmt.Errorf("made by another version of weir (format %d, this one has %d)", l.Meta.Format, format)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", metaName, err)
	}
	return nil
}

// Append appends whole lines of one origin. If it fails, the log is unchanged, and Append may be called again. If the
// log has its maximum size, the error is errFull.
func (l *Log) Append(lines []byte, of Origin) error {
	begin, committed, end, s := l.bounds()
	full := end > begin && end-begin+int64(len(lines)) > l.max
	// If all is committed, it can be forgotten once it is not the last segment.
	if s == nil || s.size >= l.segment || l.isOld(s) || committed >= end && (full || l.diskFull) {
		var err error
		if s, err = l.rotate(s); err != nil {
			return err
		}
	}
	if full {
		return errFull
	}
	to := sum{End: s.size + int64(len(lines)), Origin: of}.of(lines)
	_, err := s.data.WriteAt(lines, s.size)
	if err == nil {
		_, err = s.sums.WriteAt(to.encode(), (s.runs+1)*sumSize)
	}
	if l.diskFull = IsFull(err); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s.size, s.runs = to.End, s.runs+1
	l.end = s.end()
	l.Gauge(l.end - l.committed)
	select {
	case l.grown <- struct{}{}:
	default:
	}
	return nil
}

// isOld reports whether a segment has the maximum age, or a start in the future because the clock was set back.
func (l *Log) isOld(s *segment) bool {
	age := time.Since(s.began)
	return l.age > 0 && (age >= l.age || age < 0)
}

// rotate syncs the last segment, and starts another one, unless the last one is empty.
func (l *Log) rotate(last *segment) (*segment, error) {
	if last != nil && last.size == 0 {
		return last, nil
	} else if last != nil {
		if err := errors.Join(last.cut(), last.sync()); err != nil {
			return nil, err
		}
	}
	s := &segment{base: l.end, began: time.Now()}
	if err := cmp.Or(s.open(l.fs, false), l.fs.Sync()); err != nil { // retried repeatedly on a full disk
		_ = s.remove(l.fs) // Open does it if this cannot
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.segments = append(l.segments, s)
	return s, nil
}

// Sync makes appended lines survive a power cut. A later loss is then recognized as damage.
func (l *Log) Sync() error {
	_, _, end, s := l.bounds() // earlier segments were synced before this one started
	if s == nil || end-s.base == s.synced {
		return nil
	}
	if err := s.sync(); err != nil {
		return err
	}
	s.synced = end - s.base // what was appended meanwhile is for the next Sync
	if _, err := s.sums.WriteAt(sum{End: s.synced}.of(nil).encode(), 0); !IsFull(err) {
		return err
	}
	return nil
}

// Read fills p with runs of one origin from an offset on, and returns the number of bytes: 0 if p is too small for the
// next run. from may lie within a run, for which p must have room; to is the end of a run. It returns a *DamageError if
// the next run is damaged.
func (l *Log) Read(p []byte, from, to int64) (int, Origin, error) {
	l.mu.Lock()
	i := len(l.segments) - 1
	for i >= 0 && l.segments[i].base > from {
		i--
	}
	if i < 0 || from >= l.end {
		l.mu.Unlock()
		return 0, Origin{}, fmt.Errorf("the spool has no lines at %d", from)
	}
	s := l.segments[i]
	from, to = from-s.base, min(to-s.base, s.size)
	l.mu.Unlock()
	r := &l.reader
	if r.segment != s || r.at > from {
		*r = reader{segment: s}
	}
	for {
		begin := r.at
		n, of, err := r.read(p, to)
		if n == 0 || r.at > from {
			return copy(p, p[min(from-begin, int64(n)):n]), of, err
		}
	}
}

// An Archive keeps the content of a segment; nil: it is not kept. began is when the segment was started. Writing the
// content returns a *DamageError if it is damaged.
type Archive func(began time.Time, content io.WriterTo) error

// Forget removes the segments that are committed, once archive has them; the last one only if final says that nothing
// more is appended to it.
func (l *Log) Forget(final bool, archive Archive) error {
	for {
		l.mu.Lock()
		n := len(l.segments)
		if n == 0 || n == 1 && !final || l.segments[0].end() > l.committed {
			l.mu.Unlock()
			return nil
		}
		s := l.segments[0]
		l.mu.Unlock()
		if archive != nil && s.size > 0 {
			if err := archive(s.began, &reader{segment: s}); err != nil {
				return err
			}
		}
		l.mu.Lock()
		l.segments = l.segments[1:]
		l.mu.Unlock()
		if err := s.remove(l.fs); err != nil {
			return err
		}
	}
}

// Close closes the files. It does not sync them. Nothing else may use the log meanwhile.
func (l *Log) Close() (err error) {
	for _, s := range l.segments {
		err = errors.Join(err, s.close())
	}
	l.segments = nil
	return err
}
