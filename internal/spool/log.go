// Package spool keeps lines on disk: a log of segments, which are plain files of
// lines, each with a small index beside it.
//
// A segment's name is the log's offset at which it begins, and when: so names sort in
// the order of the lines. Its index has a line for each run of lines that was
// appended: where in the segment it ends, the CRC of its bytes and of the rest of the
// index's line, and the last resume value among its lines. After a crash the log ends
// behind the last run whose CRC is right.
package spool

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
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

	mu       sync.Mutex // held for a moment, and not over calls to the disk
	meta     Meta
	segments []*segment // the last one is appended to; none where the log is empty and was not begun
	end      int64      // offset behind the last line
	resume   string
	lost     int64 // bytes that Open cut off
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

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A segment is a file of lines and its index.
type segment struct {
	base  int64 // offset of its first byte in the log
	size  int64
	began time.Time
	data  File
	index File
	wrote int64 // bytes of the index
	dirty bool
}

func (s *segment) name() string {
	return fmt.Sprintf("%020d-%s", s.base, s.began.UTC().Format(timeFormat))
}

// Open reads the log in a folder. The next segment is begun when the last has at least these bytes,
// or is of that age.
func Open(fs FS, bytes int64, age time.Duration) (l *Log, err error) {
	l = &Log{fs: fs, segment: bytes, age: age}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close())
		}
	}()
	names, err := fs.Names()
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	for _, name := range names {
		switch stem, isData := strings.CutSuffix(name, dataExt); {
		case name == metaName:
			if err := l.readMeta(); err != nil {
				return nil, err
			}
		case strings.HasSuffix(name, partExt):
			if err := fs.Remove(name); err != nil {
				return nil, err
			}
		case isData:
			s := &segment{}
			var at string
			if _, err := fmt.Sscanf(stem, "%020d-%s", &s.base, &at); err != nil {
				continue // not ours
			}
			if s.began, err = time.Parse(timeFormat, at); err != nil {
				continue
			}
			l.segments = append(l.segments, s)
			if err := l.openSegment(s); err != nil {
				return nil, err
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

func (l *Log) openSegment(s *segment) (err error) {
	if s.data, err = l.fs.Open(s.name() + dataExt); err != nil {
		return err
	}
	if s.index, err = l.fs.Open(s.name() + indexExt); err != nil {
		return err
	}
	s.size, err = s.data.Size()
	return err
}

// recover finds the end of the log. All segments but the last were synced before the
// next was begun, so that a crash can have torn the last alone; where the disk lost
// more, the log ends before that.
func (l *Log) recover() error {
	whole := 1
	for whole < len(l.segments) && l.segments[whole-1].base+l.segments[whole-1].size == l.segments[whole].base {
		whole++
	}
	for n := len(l.segments); n > 0; n-- {
		s := l.segments[n-1]
		if n <= whole {
			size := s.size
			resume, err := s.recover()
			if err != nil {
				return err
			}
			if l.lost += size - s.size; s.wrote > 0 {
				l.end, l.resume = s.base+s.size, resume
				break
			}
			// The resume value that it begins with is lost: the one before it ends with the
			// same.
		} else {
			l.lost += s.size
		}
		if err := l.remove(s); err != nil {
			return err
		}
		l.segments, l.end = l.segments[:n-1], s.base
	}
	return nil
}

// recover cuts off what does not match the index, and returns the last resume value.
func (s *segment) recover() (resume string, err error) {
	good, resume, err := s.scan()
	if err == nil {
		err = errors.Join(s.data.Truncate(good), s.index.Truncate(s.wrote))
	}
	s.size, s.dirty = good, true
	return resume, err
}

// scan returns the end of the last run of lines that is whole, and its resume value,
// and leaves in s.wrote where the index of them ends.
func (s *segment) scan() (end int64, resume string, err error) {
	size, err := s.index.Size()
	if err != nil {
		return 0, "", err
	}
	index := bufio.NewReader(io.NewSectionReader(s.index, 0, size))
	data := bufio.NewReaderSize(io.NewSectionReader(s.data, 0, s.size), 1<<20)
	for s.wrote = 0; ; {
		line, err := index.ReadString('\n')
		if err == io.EOF {
			return end, resume, nil
		} else if err != nil {
			return 0, "", err
		}
		to, sum, value, ok := parseEntry(line)
		if !ok || to < end || to > s.size {
			return end, resume, nil
		}
		crc := crc32.New(castagnoli)
		if _, err := io.CopyN(crc, data, to-end); err != nil {
			return 0, "", err
		}
		if entrySum(crc.Sum32(), to, value) != sum {
			return end, resume, nil
		}
		end, resume = to, value
		s.wrote += int64(len(line))
	}
}

// entry is a line of an index: the end of a run of lines in its segment, the CRC and
// the resume value.
func entry(data uint32, end int64, resume string) []byte {
	quoted, _ := json.Marshal(resume) // a string
	return fmt.Appendf(nil, "%d %08x %s\n", end, entrySum(data, end, resume), quoted)
}

func entrySum(data uint32, end int64, resume string) uint32 {
	return crc32.Update(data, castagnoli, fmt.Appendf(nil, "%d %s", end, resume))
}

func parseEntry(line string) (end int64, sum uint32, resume string, ok bool) {
	head, quoted, found := strings.Cut(line, ` "`)
	if !found {
		return 0, 0, "", false
	}
	if n, err := fmt.Sscanf(head, "%d %08x", &end, &sum); n != 2 || err != nil {
		return 0, 0, "", false
	}
	return end, sum, resume, json.Unmarshal([]byte(`"`+quoted), &resume) == nil
}

// Meta returns what Begin was given last; the zero value where the folder was empty.
func (l *Log) Meta() Meta { return l.meta }

// Lost returns how many bytes Open cut off, for they were not whole.
func (l *Log) Lost() int64 { return l.lost }

// Bounds returns the offsets of the first line and behind the last.
func (l *Log) Bounds() (begin, end int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.begin(), l.end
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

// Begin empties the log, which continues at an offset and a resume value.
func (l *Log) Begin(m Meta, at int64, resume string) error {
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
	e := entry(crc32.Checksum(lines, castagnoli), s.size+int64(len(lines)), resume)
	if _, err := s.index.WriteAt(e, s.wrote); err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	at = l.end
	s.size += int64(len(lines))
	s.wrote += int64(len(e))
	s.dirty = true
	l.end, l.resume = at+int64(len(lines)), resume
	return at, nil
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
	s := &segment{base: l.end, began: time.Now()}
	err := l.openSegment(s)
	if err == nil { // each segment begins with the last resume value
		e := entry(0, 0, l.resume)
		_, err = s.index.WriteAt(e, 0)
		s.wrote, s.dirty = int64(len(e)), true
	}
	if err == nil {
		err = l.fs.Sync()
	}
	if err != nil { // on a full disk it is retried and again
		return nil, errors.Join(err, l.remove(s))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.segments = append(l.segments, s)
	return s, nil
}

// seal makes a segment one that another may follow: what a write that failed has left
// behind its end is cut off.
func (s *segment) seal() error {
	return errors.Join(s.data.Truncate(s.size), s.index.Truncate(s.wrote), s.sync())
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
	dirty := s.dirty
	s.dirty = false // what is appended from now on is for the next time
	l.mu.Unlock()
	if !dirty {
		return nil
	}
	err := s.sync()
	if err != nil {
		l.mu.Lock()
		s.dirty = true
		l.mu.Unlock()
	}
	return err
}

func (s *segment) sync() error { return errors.Join(s.data.Sync(), s.index.Sync()) }

// ReadLines fills p with whole lines from an offset on, and returns how many bytes
// these are: 0 where p is too small for one line.
func (l *Log) ReadLines(p []byte, at int64) (int, error) {
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
	rest := s.base + s.size - at
	l.mu.Unlock()
	p = p[:min(int64(len(p)), rest)]
	if n, err := s.data.ReadAt(p, at-s.base); n < len(p) {
		return 0, fmt.Errorf("reading the spool: %w", err)
	}
	return bytes.LastIndexByte(p, '\n') + 1, nil
}

// Forget removes the segments whose lines all lie before an offset. keep, where it is
// not nil, gets each one's content first, with the time at which it was begun. The
// last one goes only where final says that nothing will be appended to it. One Forget at a
// time.
func (l *Log) Forget(before int64, final bool, keep func(began time.Time, content io.Reader) error) error {
	for {
		s, size := l.oldest(final)
		if s == nil || s.base+size > before {
			return nil
		}
		if keep != nil && size > 0 {
			if err := keep(s.began, io.NewSectionReader(s.data, 0, size)); err != nil {
				return err
			}
		}
		if err := l.drop(s); err != nil {
			return err
		}
	}
}

// oldest returns the first segment and its size; it is nil where that is appended to, if
// this is not final.
func (l *Log) oldest(final bool) (*segment, int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.segments) > 1 || final && len(l.segments) == 1 {
		return l.segments[0], l.segments[0].size
	}
	return nil, 0
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

// remove takes a segment from the disk. Its index goes last: without it the lines
// would count as torn.
func (l *Log) remove(s *segment) error {
	return errors.Join(s.close(), l.fs.Remove(s.name()+dataExt), l.fs.Remove(s.name()+indexExt))
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
func (l *Log) Close() error {
	err := l.Sync()
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
