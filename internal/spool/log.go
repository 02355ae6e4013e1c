// Package spool keeps lines on disk, in a log of segments. A segment is a plain file of lines with a small index file.
//
// A segment's name is its offset in the log and its start time, so names sort in the order of the lines. Its index has
// an entry with a CRC for each run of lines appended, and everything read is checked against it. After a crash the log
// ends after the last whole run. If more than that had been synced, the disk has damaged it, which is an error.
package spool

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Log is a sequence of lines: new ones are appended, the oldest are forgotten. Any goroutine may call its methods.
type Log struct {
	fs      FS
	segment int64 // minimum bytes of a segment, unless it is old
	age     time.Duration

	// Lock them in this order. Code that only reads the state locks only mu.
	syncing  sync.Mutex // held during Sync, and while closing files that it may be syncing
	changing sync.Mutex // held while appending, or replacing the segment to append to
	reading  sync.Mutex // held during ReadLines

	mu       sync.Mutex // held briefly, never during disk operations
	meta     Meta
	segments []*segment // appended to at the last one; empty if the log is empty and was not begun
	end      int64      // offset after the last line
	resume   string
	lost     int64 // bytes that Open cut off

	next position // after what ReadLines has read; guarded by reading
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
	format   = 1
	metaName = "spool.json"
	dataExt  = ".jsonl"
	indexExt = ".index"
	partExt  = ".part" // a file being written, or left by a crash

	timeFormat = "20060102T150405.000Z"
)

// A segment is a file of lines, and its index.
type segment struct {
	base  int64 // its offset in the log
	size  int64
	began time.Time
	data  File
	index File

	indexed int64 // bytes of the index
	synced  int64 // bytes of data known to be synced; -1 if not even the first entry is
}

func (s *segment) name() string {
	return fmt.Sprintf("%020d-%s", s.base, s.began.UTC().Format(timeFormat))
}

// namedSegment parses a segment's file name. It returns nil for other files.
func namedSegment(name string) *segment {
	s := &segment{synced: -1}
	var at string
	if _, err := fmt.Sscanf(name, "%020d-%s", &s.base, &at); err != nil {
		return nil
	}
	var err error
	if s.began, err = time.Parse(timeFormat, at); err != nil {
		return nil
	}
	return s
}

// Open opens the log in a folder. A new segment starts when the last one has at least this many bytes or this age.
// Damage is a *DamageError. Open does not find all damage; ReadLines and Forget find the rest.
func Open(fs FS, bytes int64, age time.Duration) (l *Log, err error) {
	l = &Log{fs: fs, segment: bytes, age: age}
	defer func() {
		if err != nil {
			l, err = nil, errors.Join(err, l.close())
		}
	}()
	names, err := fs.Names()
	if err != nil {
		return l, err
	}
	slices.Sort(names)
	for _, name := range names {
		segmentName, ext := strings.TrimSuffix(name, path.Ext(name)), path.Ext(name)
		s := namedSegment(segmentName)
		switch {
		case name == metaName:
			if err := l.readMeta(); err != nil {
				return l, err
			}
		// A crash left a part, or interrupted a removal.
		case ext == partExt, s != nil && ext == indexExt && !slices.Contains(names, segmentName+dataExt):
			if err := fs.Remove(name); err != nil {
				return l, err
			}
		case s != nil && ext == dataExt:
			l.segments = append(l.segments, s)
			if err := l.openSegment(s, slices.Contains(names, segmentName+indexExt)); err != nil {
				return l, err
			}
		}
	}
	return l, l.recover()
}

func (l *Log) readMeta() error {
	if err := readJSON(l.fs, metaName, &l.meta); err != nil {
		return err
	}
	if l.meta.Format > format {
		return newerFormat(metaName, l.meta.Format)
	}
	return nil
}

// openSegment opens a segment's files, or creates them. Lines without an index are damage.
func (l *Log) openSegment(s *segment, hasIndex bool) (err error) {
	if s.data, err = l.fs.Open(s.name() + dataExt); err != nil {
		return err
	}
	if s.size, err = s.data.Size(); err != nil {
		return err
	}
	if s.size > 0 && !hasIndex {
		return &DamageError{File: s.name() + indexExt}
	}
	if s.index, err = l.fs.Open(s.name() + indexExt); err != nil {
		return err
	}
	s.indexed, err = s.index.Size()
	return err
}

// recover finds the end of the log. Every segment is synced before the next one starts, so a crash can damage only the
// last.
func (l *Log) recover() error {
	for i, next := range l.segments[min(1, len(l.segments)):] {
		s := l.segments[i]
		if size := next.base - s.base; size != s.size {
			return &DamageError{s.name() + dataExt, min(size, s.size), max(size, s.size) - min(size, s.size)}
		}
	}
	for sealed := false; len(l.segments) > 0; sealed = true {
		n := len(l.segments) - 1
		s := l.segments[n]
		size := s.size
		resume, err := s.recover(sealed)
		if err != nil {
			return err
		}
		l.lost += size - s.size
		if l.end = s.base + s.size; s.indexed > 0 {
			l.resume = resume
			break
		}
		// Its first resume value is lost, but the previous segment ends with the same value.
		if err := l.remove(s); err != nil {
			return err
		}
		l.segments = l.segments[:n]
	}
	return nil
}

// recover cuts off what follows the last whole run, unless it was synced; in a sealed segment everything was. It
// returns the last resume value.
func (s *segment) recover(sealed bool) (resume string, err error) {
	r := position{s: s}.read(s.size, s.indexed)
	_, torn := io.Copy(io.Discard, r)
	if torn != nil && !errors.As(torn, new(*DamageError)) {
		return "", torn
	}
	synced, err := r.syncedTo()
	if err != nil {
		return "", err
	}
	if torn != nil && (sealed || synced > r.data) {
		return "", torn
	}
	s.size, s.indexed = r.data, r.indexed
	return r.resume, errors.Join(s.data.Truncate(s.size), s.index.Truncate(s.indexed))
}

// Meta returns what was last passed to Reset; the zero value for an empty folder.
func (l *Log) Meta() Meta { return l.meta }

// Lost returns how many bytes of incomplete runs Open cut off.
func (l *Log) Lost() int64 { return l.lost }

// Bounds returns the offsets of the first line and after the last.
func (l *Log) Bounds() (begin, end int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.begin(), l.end
}

// End returns the offset after the last line.
func (l *Log) End() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end
}

func (l *Log) begin() int64 {
	if len(l.segments) == 0 {
		return l.end
	}
	return l.segments[0].base
}

// Size returns the size of the lines on disk, in bytes.
func (l *Log) Size() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end - l.begin()
}

// Resume returns the last resume value that was appended.
func (l *Log) Resume() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.resume
}

// Reset empties the log and continues it at an offset and a resume value.
func (l *Log) Reset(m Meta, at int64, resume string) error {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	l.changing.Lock()
	defer l.changing.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock() // no reader exists yet
	for len(l.segments) > 0 {
		n := len(l.segments) - 1 // last first, so an interruption leaves them contiguous
		if err := l.remove(l.segments[n]); err != nil {
			return err
		}
		l.segments = l.segments[:n]
	}
	l.end, l.resume = at, resume
	m.Format = format
	if l.meta = m; m.ID == "" {
		return nil
	}
	return writeJSON(l.fs, metaName, m)
}

// Append appends whole lines, with their last resume value or "". It returns the offset of the first line. If it fails,
// the log is unchanged, and Append may be called again.
func (l *Log) Append(lines []byte, resume string) (at int64, err error) {
	l.changing.Lock()
	defer l.changing.Unlock()
	if resume == "" {
		resume = l.resume
	}
	s, err := l.active()
	if err != nil {
		return 0, err
	}
	if _, err := s.data.WriteAt(lines, s.size); err != nil {
		return 0, err // what it wrote is overwritten, or cut off after a crash
	}
	e := entry{end: s.size + int64(len(lines)), synced: s.synced, sum: crc32.Checksum(lines, castagnoli), resume: resume}
	indexed, err := s.enter(e)
	if err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	at = l.end
	s.size, s.indexed = e.end, indexed
	l.end, l.resume = at+int64(len(lines)), resume
	return at, nil
}

// enter appends an entry to the index, and returns the index's new size.
func (s *segment) enter(e entry) (indexed int64, err error) {
	n, err := s.index.WriteAt(e.line(), s.indexed)
	return s.indexed + int64(n), err
}

// last returns the segment to append to, or nil.
func (l *Log) last() *segment {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.segments); n > 0 {
		return l.segments[n-1]
	}
	return nil
}

// active returns the segment to append to. It starts a new one if necessary.
func (l *Log) active() (*segment, error) {
	if last := l.last(); last != nil {
		if !l.full(last) {
			return last, nil
		}
		if err := last.seal(); err != nil {
			return nil, err
		}
	}
	s := &segment{base: l.end, began: time.Now(), synced: -1}
	err := l.openSegment(s, false)
	if err == nil { // each segment begins with the last resume value
		s.indexed, err = s.enter(entry{resume: l.resume})
	}
	if err == nil {
		err = l.fs.Sync()
	}
	if err != nil { // retried repeatedly on a full disk
		_ = l.remove(s) // Open does it if this cannot
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.segments = append(l.segments, s)
	return s, nil
}

// seal finishes a segment before another one starts. It cuts off what a failed write has left after its end.
func (s *segment) seal() error {
	return errors.Join(s.data.Truncate(s.size), s.index.Truncate(s.indexed), s.sync())
}

// full reports whether to start another segment. A start time in the future means that the clock was set back.
func (l *Log) full(s *segment) bool {
	age := time.Since(s.began)
	return s.size >= l.segment || s.size > 0 && l.age > 0 && (age >= l.age || age < 0)
}

// Sync makes appended lines survive a power cut. Others may append and read meanwhile.
func (l *Log) Sync() error {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	s := l.last() // earlier segments were synced when this one started
	if s == nil {
		return nil
	}
	l.mu.Lock()
	size, synced := s.size, s.synced // lines appended from now on are for the next Sync
	l.mu.Unlock()
	if size == synced {
		return nil
	}
	if err := s.sync(); err != nil {
		return err
	}
	return l.noteSynced(s, size)
}

// noteSynced records in the index how much of a segment is synced, so a later loss is recognized as damage. A sealed
// segment needs no record, because all of it is synced. If the disk is full, the next entry records it.
func (l *Log) noteSynced(s *segment, size int64) error {
	l.changing.Lock()
	defer l.changing.Unlock()
	if s != l.last() {
		return nil
	}
	indexed, err := s.enter(entry{end: s.size, synced: size, resume: l.resume})
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.synced = size; err == nil {
		s.indexed = indexed
	} else if IsFull(err) {
		err = nil
	}
	return err
}

func (s *segment) sync() error { return errors.Join(s.data.Sync(), s.index.Sync()) }

// ReadLines fills p with runs of lines from an offset on, and returns the number of bytes: 0 if p is too small for the
// next run. The offset may be within a run; p must have room for the whole run. It returns a *DamageError if the next
// run is damaged.
func (l *Log) ReadLines(p []byte, at int64) (int, error) {
	l.reading.Lock()
	defer l.reading.Unlock()
	l.mu.Lock()
	i := len(l.segments) - 1
	for i >= 0 && l.segments[i].base > at {
		i--
	}
	if i < 0 || at >= l.end {
		l.mu.Unlock()
		return 0, fmt.Errorf("the spool has no lines at %d", at)
	}
	s := l.segments[i]
	size, indexed := s.size, s.indexed
	l.mu.Unlock()
	at -= s.base
	if l.next.s != s || l.next.data > at {
		l.next = position{s: s}
	}
	r := l.next.read(size, indexed)
	if err := r.skip(at); err != nil {
		return 0, err
	}
	begin := r.data
	_, err := io.ReadFull(r, p)
	if l.next = r.position; r.data > at {
		return copy(p, p[at-begin:r.data-begin]), nil // damage after it is found by the next call
	}
	return 0, err
}

// Forget removes the segments whose lines all lie before an offset. If archive is not nil, it first gets each segment's
// content, and the time when the segment was started; reading the content returns a *DamageError if it is damaged. The
// last segment is removed only if final says that nothing more will be appended to it. Calls must not overlap.
func (l *Log) Forget(before int64, final bool, archive func(began time.Time, content io.Reader) error) error {
	for {
		s, size, indexed := l.oldest(final)
		if s == nil || s.base+size > before {
			return nil
		}
		if archive != nil && size > 0 {
			if err := archive(s.began, position{s: s}.read(size, indexed)); err != nil {
				return err
			}
		}
		if err := l.drop(s); err != nil {
			return err
		}
	}
}

// oldest returns the first segment and the sizes of its data and index. It is nil if that is the segment to append to
// and final is false.
func (l *Log) oldest(final bool) (s *segment, size, indexed int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.segments) > 1 || final && len(l.segments) == 1 {
		s = l.segments[0]
		return s, s.size, s.indexed
	}
	return nil, 0, 0
}

// drop removes the first segment.
func (l *Log) drop(s *segment) error {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	l.changing.Lock()
	l.mu.Lock()
	l.segments = l.segments[1:]
	l.mu.Unlock()
	l.changing.Unlock()
	return l.remove(s)
}

// remove deletes a segment's files. Its index goes last, even in a power cut, because lines without an index count as
// damaged.
func (l *Log) remove(s *segment) error {
	return errors.Join(s.close(), l.fs.Remove(s.name()+dataExt), l.fs.Sync(), l.fs.Remove(s.name()+indexExt))
}

func (s *segment) close() error {
	var err error
	if s.data != nil {
		err = s.data.Close()
	}
	if s.index != nil {
		err = errors.Join(err, s.index.Close())
	}
	return err
}

// Close syncs and closes the files.
func (l *Log) Close() error { return errors.Join(l.Sync(), l.close()) }

func (l *Log) close() (err error) {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	l.changing.Lock()
	defer l.changing.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.segments {
		err = errors.Join(err, s.close())
	}
	l.segments = nil
	return err
}
