// Package spool keeps lines on disk: a log of segments, which are plain files of
// lines, each with a small index beside it.
//
// A segment's name is the log's offset at which it begins, and when: so names sort in
// the order of the lines. Its index has an entry for each run of lines that was
// appended. Whatever is read of a segment is compared with it. After a crash the log
// ends behind the last run that is whole, if what was synced ends there or before:
// otherwise the disk has damaged it, which is an error.
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

// A Log is a sequence of lines of which the end is appended to and the beginning
// forgotten. Its methods may be called from any goroutine.
type Log struct {
	fs      FS
	segment int64 // bytes of a segment, at least, unless it is old
	age     time.Duration

	// Locked in this order. None but mu is waited for by those who only look.
	syncing  sync.Mutex // held over Sync, and where files are closed that it may be syncing
	changing sync.Mutex // held by who appends, and who takes the segment that is appended to
	reading  sync.Mutex // held over ReadLines

	mu       sync.Mutex // held for a moment, and not over calls to the disk
	meta     Meta
	segments []*segment // the last one is appended to; none where the log is empty and was not begun
	end      int64      // offset behind the last line
	resume   string
	lost     int64 // bytes that Open cut off

	next position // behind what ReadLines has read; locked by reading
}

// Meta is what a log knows of itself.
type Meta struct {
	Format int    `json:"format"`
	ID     string `json:"id"` // no other log has the same
	Job    string `json:"job"`
	Source string `json:"source"`
	Seq    int64  `json:"seq"` // of the job's last flush before the log was begun
}

const (
	format   = 1
	metaName = "spool.json"
	dataExt  = ".jsonl"
	indexExt = ".index"
	partExt  = ".part" // of a file that is being written, which a crash leaves

	timeFormat = "20060102T150405.000Z"
)

// A segment is a file of lines and its index.
type segment struct {
	base  int64 // offset of its first byte in the log
	size  int64
	began time.Time
	data  File
	index File

	indexed int64 // bytes of the index
	synced  int64 // bytes of data that are known to be synced; -1 if not even the first entry is
}

func (s *segment) name() string {
	return fmt.Sprintf("%020d-%s", s.base, s.began.UTC().Format(timeFormat))
}

// namedSegment returns a segment by its name, or nil if that is another file's.
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

// Open reads the log in a folder. The next segment is begun when the last has at least these bytes,
// or is of that age. Damage is a *DamageError, if this finds it: else ReadLines and Forget do.
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
		stem, ext := strings.TrimSuffix(name, path.Ext(name)), path.Ext(name)
		s := namedSegment(stem)
		switch {
		case name == metaName:
			if err := l.readMeta(); err != nil {
				return l, err
			}
		case ext == partExt, s != nil && ext == indexExt && !slices.Contains(names, stem+dataExt): // it was being removed
			if err := fs.Remove(name); err != nil {
				return l, err
			}
		case s != nil && ext == dataExt:
			l.segments = append(l.segments, s)
			if err := l.openSegment(s, slices.Contains(names, stem+indexExt)); err != nil {
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

// openSegment opens the files of a segment, or makes them. Lines without an index are damage.
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

// recover finds the end of the log. All segments but the last were synced before the
// next was begun, so that a crash can have torn the last alone.
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
		// The resume value that it begins with is lost: the one before it ends with the
		// same.
		if err := l.remove(s); err != nil {
			return err
		}
		l.segments = l.segments[:n]
	}
	return nil
}

// recover cuts off what is behind the last whole run, unless that was synced, as all of a sealed
// segment was. It returns the last resume value.
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

// Meta returns what Reset was given last; the zero value where the folder was empty.
func (l *Log) Meta() Meta { return l.meta }

// Lost returns how many bytes Open cut off, for they were not whole.
func (l *Log) Lost() int64 { return l.lost }

// Bounds returns the offsets of the first line and behind the last.
func (l *Log) Bounds() (begin, end int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.begin(), l.end
}

// End returns the offset behind the last line.
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

// Size returns the bytes of lines that are on disk.
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
	defer l.mu.Unlock() // nothing reads yet
	for len(l.segments) > 0 {
		n := len(l.segments) - 1 // from the end: what is left is in order
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

// Append appends whole lines, whose last resume value is given; "" is none. It
// returns the offset of the first. Where it fails the log is as it was, and it may be
// called again.
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
		return 0, err // what it wrote is written over, or cut off after a crash
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

// enter appends an entry to the index, and returns where that ends then.
func (s *segment) enter(e entry) (indexed int64, err error) {
	n, err := s.index.WriteAt(e.line(), s.indexed)
	return s.indexed + int64(n), err
}

// last returns the segment that is appended to, or nil.
func (l *Log) last() *segment {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.segments); n > 0 {
		return l.segments[n-1]
	}
	return nil
}

// active returns the segment to append to.
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
	if err != nil { // on a full disk it is retried and again
		_ = l.remove(s) // Open does it if this cannot
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.segments = append(l.segments, s)
	return s, nil
}

// seal makes a segment one that another may follow: what a write that failed has left
// behind its end is cut off.
func (s *segment) seal() error {
	return errors.Join(s.data.Truncate(s.size), s.index.Truncate(s.indexed), s.sync())
}

// full reports whether another segment is due. One that began in the future was begun
// before the clock was set back.
func (l *Log) full(s *segment) bool {
	age := time.Since(s.began)
	return s.size >= l.segment || s.size > 0 && l.age > 0 && (age >= l.age || age < 0)
}

// Sync makes what was appended outlast a power cut. Others append and read meanwhile.
func (l *Log) Sync() error {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	s := l.last() // those before it were synced when it was begun
	if s == nil {
		return nil
	}
	l.mu.Lock()
	size, synced := s.size, s.synced // what is appended from now on is for the next time
	l.mu.Unlock()
	if size == synced {
		return nil
	}
	if err := s.sync(); err != nil {
		return err
	}
	return l.noteSynced(s, size)
}

// noteSynced enters into the index how much of a segment is synced, so that its loss is known
// for damage. Of a segment that was sealed meanwhile all is, and without room on the disk the
// next entry says it.
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

// ReadLines fills p with the runs of lines from an offset on, and returns how many bytes
// these are: 0 where p is too small for the run there. The offset may be within a run, which
// p has to have room for. Where the next run is damaged it returns a *DamageError.
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
		return copy(p, p[at-begin:r.data-begin]), nil // damage behind it is found next
	}
	return 0, err
}

// Forget removes the segments whose lines all lie before an offset. archive, if it is
// not nil, gets each one's content first, with the time at which it was begun; reading it fails with a *DamageError. The
// last one goes only where final says that nothing will be appended to it. One Forget at a
// time.
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

// oldest returns the first segment, its size and its index's; it is nil where that is appended to,
// if this is not final.
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

// remove takes a segment from the disk. Its index goes last, also if the power is cut: lines without
// one count as damaged.
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
