package file

import (
	"bufio"
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

// successor returns the path of the file to read after current, which was at path before: the oldest file that was
// rotated after it, or path. doubtful lists files that were written after current and may have been at path in between;
// their names do not tell.
func successor(path string, current fs.FileInfo) (next string, doubtful []string, err error) {
	now, err := os.Stat(path)
	if err != nil {
		return "", nil, err
	}
	dir, base := filepath.Split(path)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", nil, err
	}
	var renamed string // current's name after its rotation
	var written []fs.FileInfo
	for _, e := range entries {
		info, err := e.Info()
		switch {
		case err != nil || !info.Mode().IsRegular() || os.SameFile(info, now):
		case os.SameFile(info, current):
			renamed = info.Name()
		case !info.ModTime().Before(current.ModTime()):
			written = append(written, info)
		}
	}
	common := commonPrefix(base, renamed)
	var rotated []string
	for _, info := range written {
		rest, begins := strings.CutPrefix(info.Name(), common)
		switch {
		case begins && pattern(rest) == pattern(renamed[len(common):]) && compareAge(rest, renamed[len(common):]) > 0:
			rotated = append(rotated, rest)
		case info.ModTime().After(current.ModTime()) && numbers.MatchString(strings.TrimPrefix(info.Name(), base)) && strings.HasPrefix(info.Name(), base):
			doubtful = append(doubtful, info.Name())
		}
	}
	if len(rotated) == 0 {
		return path, doubtful, nil
	}
	return dir + common + slices.MinFunc(rotated, compareAge), doubtful, nil
}

// unrotated returns f, the file at the stream's path, or in its place the one file that was read before, if that was
// renamed, copied or compressed since to a name that begins with the path. A lane of the run reads that from its own
// position, so it is not taken. It closes the other.
func (s *Stream) unrotated(f *os.File) *os.File {
	if s.isRead(f) {
		return f
	}
	dir, base := filepath.Split(s.Name)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return f // and its error says what changed
	}
	var found []*os.File
	for _, e := range entries {
		if e.Name() == base || !strings.HasPrefix(e.Name(), base) || !e.Type().IsRegular() {
			continue
		}
		if old, err := os.Open(dir + e.Name()); err == nil && s.isRead(old) {
			found = append(found, old)
		} else if err == nil {
			old.Close()
		}
	}
	if len(found) > 1 {
		s.opts.Log.Warn(fmt.Sprintf("%s and %s both begin like the file that was read before: move copies away, and the rest of the other is read", found[0].Name(), found[1].Name()))
	}
	if len(found) == 1 && !s.isLane(found[0].Name()) {
		s.opts.Log.Info(fmt.Sprintf("%s was rotated since it was read: the rest of %s comes first", s.Name, filepath.Base(found[0].Name())))
		found = append(found, f)
		f, found = found[0], found[1:]
	}
	for _, other := range found {
		other.Close()
	}
	return f
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
