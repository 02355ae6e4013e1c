package spool

import (
	"bufio"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"
	"strings"
)

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

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// An entry is a line of an index. It describes a run of lines, which begins at the end of the previous run and may be
// empty. The line begins with the CRC of its rest. An empty line precedes it, so one bad byte cannot join two entries.
type entry struct {
	end    int64  // the run's end in its segment
	synced int64  // bytes of the segment known to be synced
	sum    uint32 // the run's CRC
	resume string // last resume value up to the end
}

func (e entry) line() []byte {
	rest := fmt.Sprintf("%d %d %08x %q\n", e.end, max(e.synced, 0), e.sum, e.resume)
	return fmt.Appendf(nil, "\n%08x %s", crc32.Checksum([]byte(rest), castagnoli), rest)
}

// parseEntry parses a line. ok is false if it is damaged.
func parseEntry(line string) (e entry, ok bool) {
	sum, rest, _ := strings.Cut(line, " ")
	want, err := strconv.ParseUint(sum, 16, 32)
	if err != nil || crc32.Checksum([]byte(rest), castagnoli) != uint32(want) {
		return e, false
	}
	_, err = fmt.Sscanf(rest, "%d %d %08x %q\n", &e.end, &e.synced, &e.sum, &e.resume)
	return e, err == nil
}

// A position lies between two runs of a segment.
type position struct {
	s       *segment
	data    int64 // offset in the segment
	indexed int64 // offset in the index, after the entries for the data before
}

// A reader reads a segment from a position on, and checks each run against its CRC as soon as it has read the run's
// last byte.
type reader struct {
	position        // after the last run checked
	resume   string // resume value up to there
	synced   int64  // the highest value in the entries before
	size     int64  // bytes of the segment that may be read
	index    *bufio.Reader
	next     int64 // offset of the next byte to read
	run      entry // the current run
	line     int64 // bytes of its entry in the index; 0: not read yet
	sum      uint32
}

// read returns a reader of the first size bytes of a segment, with the indexed first bytes of its index.
func (at position) read(size, indexed int64) *reader {
	return &reader{position: at, size: size, next: at.data,
		index: bufio.NewReader(io.NewSectionReader(at.s.index, at.indexed, indexed-at.indexed))}
}

// skip moves to the run that contains an offset, before anything is read.
func (r *reader) skip(to int64) error {
	for {
		if err := r.findRun(); err == io.EOF {
			return r.damage(r.size)
		} else if err != nil || r.run.end > to {
			return err
		}
		r.pass()
		r.next = r.data
	}
}

// findRun reads the entry of the next run, unless it is already read. At the end of the index it returns io.EOF. After
// a damaged entry it may be called again for the next one.
func (r *reader) findRun() error {
	if r.line > 0 {
		return nil
	}
	line, empty := "\n", int64(-1)
	for err := error(nil); line == "\n"; empty++ {
		if line, err = r.index.ReadString('\n'); line == "" || err != nil && err != io.EOF {
			return err
		}
	}
	e, ok := parseEntry(line)
	if !ok || e.end < r.data {
		return &DamageError{r.s.name() + indexExt, r.indexed + empty, int64(len(line))}
	}
	r.run, r.line, r.sum = e, empty+int64(len(line)), 0
	return nil
}

// pass moves past the current run.
func (r *reader) pass() {
	r.data, r.indexed, r.line = r.run.end, r.indexed+r.line, 0
	r.resume, r.synced = r.run.resume, max(r.synced, r.run.synced)
}

// Read implements io.Reader. It returns a *DamageError if a run does not match its CRC, or has no end.
func (r *reader) Read(p []byte) (n int, err error) {
	p = p[:min(int64(len(p)), r.size-r.next)]
	if n, err = r.s.data.ReadAt(p, r.next); err != nil && err != io.EOF {
		return 0, err
	}
	switch err = r.compare(p[:n]); {
	case err != nil:
		return 0, err
	case n > 0:
		return n, nil
	case r.data < max(r.size, r.run.end):
		return 0, r.damage(max(r.size, r.run.end))
	}
	return 0, io.EOF
}

// compare adds p to the current run's CRC, and checks it at the run's end.
func (r *reader) compare(p []byte) error {
	for {
		if err := r.findRun(); err == io.EOF && len(p) > 0 {
			return r.damage(r.size)
		} else if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		n := min(int64(len(p)), r.run.end-r.next)
		r.sum = crc32.Update(r.sum, castagnoli, p[:n])
		if r.next += n; r.next < r.run.end {
			return nil
		}
		if p = p[n:]; r.sum != r.run.sum {
			return r.damage(r.run.end)
		}
		r.pass()
	}
}

// damage returns the error for the data between the position and an offset.
func (r *reader) damage(end int64) error {
	return &DamageError{r.s.name() + dataExt, r.data, end - r.data}
}

// syncedTo returns how much of the segment was synced according to the index, including entries after damage.
func (r *reader) syncedTo() (int64, error) {
	for {
		switch err := r.findRun(); {
		case err == nil:
			r.synced, r.line = max(r.synced, r.run.synced), 0
		case err == io.EOF:
			return r.synced, nil
		case !errors.As(err, new(*DamageError)):
			return 0, err
		}
	}
}
