package file

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/source/lines"
)

// successor returns the path of the file to read after the newest one, which was at t.path before: the oldest file that
// was rotated after it, or t.path. If that is unknown, because the newest one was removed, doubtful lists the files that
// may have been at t.path in between.
func (t *follower) successor() (next string, doubtful []string, err error) {
	current, err := t.newest().Stat()
	if err != nil {
		return "", nil, err
	}
	now, err := os.Stat(t.path)
	if err != nil {
		return "", nil, err
	}
	dir, base := filepath.Split(t.path)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", nil, err
	}
	var renamed string // the newest file's name after its rotation
	var others []fs.FileInfo
	for _, e := range entries {
		info, err := e.Info()
		switch {
		case err != nil || !info.Mode().IsRegular() || os.SameFile(info, now):
		case os.SameFile(info, current):
			renamed = info.Name()
		default:
			others = append(others, info)
		}
	}
	if renamed == "" { // but perhaps it was compressed
		same := slices.DeleteFunc(slices.Clone(others), func(info fs.FileInfo) bool { return !beginsWith(t.newest(), dir+info.Name()) })
		if len(same) == 1 {
			renamed = same[0].Name()
		}
	}
	common := base
	if renamed != "" {
		common = commonPrefix(base, renamed)
	}
	var rotated []string
	for _, info := range others {
		rest, begins := strings.CutPrefix(info.Name(), common)
		switch {
		case !begins || info.ModTime().Before(current.ModTime()):
		case renamed == "":
			if info.ModTime().After(current.ModTime()) && numbers.MatchString(rest) {
				doubtful = append(doubtful, info.Name())
			}
		case pattern(rest) == pattern(renamed[len(common):]) && compareAge(rest, renamed[len(common):]) > 0:
			rotated = append(rotated, rest)
		}
	}
	if len(rotated) == 0 {
		return t.path, doubtful, nil
	}
	return dir + common + slices.MinFunc(rotated, compareAge), nil, nil
}

// beginsWith reports whether f begins with the content of the file at path, which may be compressed. A program may have
// written more to f since.
func beginsWith(f *os.File, path string) bool {
	copied, err := os.Open(path)
	if err != nil {
		return false
	}
	defer copied.Close()
	in := bufio.NewReader(copied)
	content, err := lines.Decompress(in, lines.Sniff(in), lines.MaxWindow)
	got, want, n := make([]byte, seenMax), make([]byte, seenMax), 0
	at := int64(0)
	for ; err == nil; at += int64(n) {
		n, err = content.Read(got)
		if _, e := f.ReadAt(want[:n], at); e != nil || !bytes.Equal(got[:n], want[:n]) {
			return false
		}
	}
	return err == io.EOF && at > 0
}

// openRead opens the file at the stream's path, or in its place the one file that was read before, if that was renamed,
// copied or compressed since to a name that begins with the path. A lane of the run reads that from its own position, so
// it is not taken.
func (s *Stream) openRead() (*os.File, error) {
	f, err := os.Open(s.Name)
	if err != nil || s.isRead(f) {
		return f, err
	}
	dir, base := filepath.Split(s.Name)
	entries, _ := os.ReadDir(dir) // without them, reading f says what changed
	var found []string
	for _, e := range entries {
		if path := dir + e.Name(); e.Name() != base && strings.HasPrefix(e.Name(), base) && e.Type().IsRegular() && s.isReadAt(path) {
			found = append(found, path)
		}
	}
	if len(found) > 1 {
		s.opts.Log.Warn(fmt.Sprintf("%s and %s both begin like the file that was read before: move copies away, and the rest of the other is read", found[0], found[1]))
	}
	if len(found) != 1 || s.isLane(found[0]) {
		return f, nil
	}
	f.Close()
	s.opts.Log.Info(fmt.Sprintf("%s was rotated since it was read: the rest of %s comes first", s.Name, filepath.Base(found[0])))
	return os.Open(found[0])
}

func (s *Stream) isReadAt(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	return s.isRead(f)
}

// isRead reports whether f is the file that was read before, as far as its bytes before the stream's position tell. Of
// a compressed file at the stream's path only skipping tells, because decompressing it twice takes long. It leaves f at
// its start.
func (s *Stream) isRead(f *os.File) bool {
	if s.from.Offset == 0 {
		return true
	}
	defer func() { _, _ = f.Seek(0, io.SeekStart) }()
	in := bufio.NewReader(f)
	format := s.opts.Compression
	if format == source.Auto {
		format = lines.Sniff(in)
	}
	if format == source.None {
		head, last, err := readEnds(f, f.Name(), s.from)
		return err == nil && s.from.Check(f.Name(), head, last) == nil
	} else if f.Name() == s.Name {
		return true
	}
	content, err := lines.Decompress(in, format, lines.MaxWindow)
	return err == nil && s.from.Matches(content)
}

var numbers = regexp.MustCompile(`[0-9]+`)

// pattern returns the suffix of a rotated file's name, plain or compressed, without its numbers.
func pattern(suffix string) string {
	for _, packed := range []string{".gz", ".zst"} {
		suffix = strings.TrimSuffix(suffix, packed)
	}
	return numbers.ReplaceAllString(suffix, "#")
}

// compareAge compares the suffixes of two rotated files' names, which differ only in their numbers. It is negative if a
// is older: FILE.1 is newer than FILE.2, FILE-20241124 older than FILE-20241125.
func compareAge(a, b string) int {
	as, bs := numbers.FindAllString(a, -1), numbers.FindAllString(b, -1)
	dated := slices.ContainsFunc(as, func(n string) bool { return len(n) > 3 })
	for i := range as {
		x, y := strings.TrimLeft(as[i], "0"), strings.TrimLeft(bs[i], "0")
		if c := cmp.Or(len(x)-len(y), strings.Compare(x, y)); c != 0 && dated {
			return c
		} else if c != 0 {
			return -c
		}
	}
	return 0
}

func commonPrefix(a, b string) string {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return a[:n]
}
