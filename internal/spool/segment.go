package spool

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"
)

const (
	dataExt    = ".jsonl"
	sumsExt    = ".sums"
	sumSize    = 24 // bytes of a sum
	timeFormat = "20060102T150405.000Z"
)

// A segment is a file of lines, and a file of sums. Lines are appended in runs, each with a sum. A first sum, of no run,
// says how much is known to be synced.
type segment struct {
	base       int64 // its offset in the log
	began      time.Time
	data, sums File
	size, runs int64 // of whole runs; under Log.mu
	synced     int64 // bytes known to be synced; whoever syncs owns it
}

// An Origin is what the lines of a run have in common.
type Origin struct {
	Oversize int64  // see [source.Block]; not 0: the run is the beginning of one line
	Conn     uint32 // the connection that sent them
}

// A sum is the checksum of a run. The files have it in big-endian order.
type sum struct {
	End int64 // offset in the segment after the run; 0: never written
	Origin
	CRC uint32 // of the run and what is above
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (s sum) encode() []byte {
	p, _ := binary.Append(nil, binary.BigEndian, s) // numbers cannot fail
	return p
}

func decodeSum(p []byte) (s sum) {
	_, _ = binary.Decode(p, binary.BigEndian, &s)
	return s
}

// of returns the sum with the CRC for a run.
func (s sum) of(run []byte) sum {
	s.CRC = 0
	s.CRC = crc32.Update(crc32.Checksum(run, castagnoli), castagnoli, s.encode())
	return s
}

// A DamageError reports that a file of a log does not hold what was written to it.
type DamageError struct {
	File  string // file name without its folder
	At    int64  // offset in the file
	Bytes int64  // wrong or missing bytes from there on; 0: all
}

func (e *DamageError) Error() string {
	if e.Bytes == 0 {
		return e.File + " is missing"
	}
	return fmt.Sprintf("%s is damaged: the %d bytes from byte %d on are not those that were written", e.File, e.Bytes, e.At)
}

// readAt fills p from an offset on, with zeros after the file's end.
func readAt(f File, p []byte, at int64) error {
	n, err := f.ReadAt(p, at)
	if clear(p[n:]); err == io.EOF {
		return nil
	}
	return err
}

func (s *segment) name() string {
	return fmt.Sprintf("%020d-%s", s.base, s.began.UTC().Format(timeFormat))
}

// namedSegment parses a segment's file name. It returns nil for other files.
func namedSegment(name string) *segment {
	s, at := &segment{}, ""
	_, err := fmt.Sscanf(name, "%020d-%s", &s.base, &at)
	if err == nil {
		s.began, err = time.Parse(timeFormat, at)
	}
	if err != nil {
		return nil
	}
	return s
}

func (s *segment) end() int64 { return s.base + s.size }

// open opens a segment's files, or creates them. Lines without sums are damage.
func (s *segment) open(fs FS, hasSums bool) (err error) {
	if s.data, err = fs.Open(s.name() + dataExt); err != nil {
		return err
	}
	info, err := s.data.Stat()
	if err != nil {
		return err
	}
	if s.size = info.Size(); s.size > 0 && !hasSums {
		return &DamageError{File: s.name() + sumsExt}
	}
	s.sums, err = fs.Open(s.name() + sumsExt)
	return err
}

// recover cuts off what follows the last whole run, and returns how many bytes. If more was synced, the disk has
// damaged it, which is a *DamageError.
func (s *segment) recover() (lost int64, err error) {
	r := reader{segment: s}
	_, torn := r.WriteTo(io.Discard)
	if torn != nil && !errors.As(torn, new(*DamageError)) {
		return 0, torn
	}
	p := make([]byte, sumSize)
	if err := readAt(s.sums, p, 0); err != nil {
		return 0, err
	}
	first := decodeSum(p)
	if s.synced = first.End; s.synced != 0 && first != first.of(nil) {
		return 0, &DamageError{s.name() + sumsExt, 0, sumSize}
	} else if s.synced > r.at {
		return 0, cmp.Or(torn, r.damage(s.synced))
	}
	lost, s.size, s.runs = s.size-r.at, r.at, r.run
	return lost, s.cut()
}

// cut removes what a crash or a failed write has left after the last run.
func (s *segment) cut() error {
	return errors.Join(s.data.Truncate(s.size), s.sums.Truncate((s.runs+1)*sumSize))
}

func (s *segment) sync() error { return errors.Join(s.data.Sync(), s.sums.Sync()) }

func (s *segment) close() (err error) {
	for _, f := range []File{s.data, s.sums} {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	return err
}

// remove deletes a segment's files. Its sums go last, even in a power cut, because lines without sums count as damaged.
func (s *segment) remove(fs FS) error {
	return errors.Join(s.close(), fs.Remove(s.name()+dataExt), fs.Sync(), fs.Remove(s.name()+sumsExt))
}

// A reader reads a segment, and compares each run with its sum.
type reader struct {
	*segment
	at, run int64               // the next run
	next    [100 * sumSize]byte // its sum, and some that follow
}

// read fills p with runs of one origin, up to the end of one. It returns the number of bytes: 0 if p is too small for
// the next run. If the next run is damaged it returns a *DamageError. to is the end of a run.
func (r *reader) read(p []byte, to int64) (n int, of Origin, err error) {
	p = p[:min(int64(len(p)), to-r.at)]
	if err := readAt(r.data, p, r.at); err != nil { // what is missing does not match its sum
		return 0, of, err
	}
	if err := readAt(r.sums, r.next[:], (r.run+1)*sumSize); err != nil {
		return 0, of, err
	}
	for sums := r.next[:]; n < len(p) && len(sums) > 0; sums = sums[sumSize:] {
		s := decodeSum(sums)
		size, rest, whole := s.End-r.at, int64(len(p)-n), r.at < s.End && s.End <= to
		switch {
		case whole && size <= rest && s == s.of(p[n:n+int(size)]) && (n == 0 || s.Origin == of && s.Oversize == 0):
			n, of, r.at, r.run = n+int(size), s.Origin, s.End, r.run+1
		case n > 0, whole && size > rest: // the next call returns the error
			return n, of, nil
		case whole:
			return 0, of, r.damage(s.End)
		default:
			return 0, of, r.damage(to)
		}
	}
	return n, of, nil
}

// WriteTo writes the rest of the segment.
func (r *reader) WriteTo(w io.Writer) (written int64, err error) {
	for p := make([]byte, minSegment); r.at < r.size && err == nil; {
		n := 0
		if n, _, err = r.read(p, r.size); n == 0 {
			p = make([]byte, 2*len(p))
		} else {
			_, err = w.Write(p[:n])
		}
		written += int64(n)
	}
	return written, err
}

// damage returns the error for the data from the next run to an offset.
func (r *reader) damage(end int64) error {
	return &DamageError{r.name() + dataExt, r.at, end - r.at}
}
