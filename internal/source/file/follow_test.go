package file_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/source/file"
	"github.com/weirsync/weir/internal/test/logtest"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// followed is a file that a test writes and a stream follows.
type followed struct {
	*testing.T
	path     string
	stream   *file.Stream
	got      []line        // read, but not yet checked
	last     source.Cursor // after the last line checked
	warnings chan string
	wait     time.Duration // see [file.Options].RotateWait
}

func newFollowed(t *testing.T, path ...string) *followed {
	return &followed{T: t, path: filepath.Join(append([]string{t.TempDir()}, path...)...), warnings: make(chan string, 100)}
}

// follow calls do with a followed file of the given content.
func follow(t *testing.T, content string, do func(f *followed)) {
	synctest.Test(t, func(t *testing.T) {
		f := newFollowed(t, "feed")
		write(t, f.path, []byte(content))
		f.open()
		do(f)
	})
}

func (f *followed) open() {
	f.stream = openWith(f, f.path, source.Options{Follow: true, MaxLine: 1000, Log: logtest.To(func(w string) { f.warnings <- w })}, file.Options{RotateWait: f.wait}, f.last)
}

func (f *followed) append(path, s string) {
	f.Helper()
	w, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	testcheck.NoError(f, err)
	_, err = w.WriteString(s)
	testcheck.NoError(f, errors.Join(err, w.Close()))
}

// next waits for a line. The stream polls the file only during next.
func (f *followed) next() line {
	f.Helper()
	for len(f.got) == 0 {
		b, err := f.stream.Next(deadline(f.T))
		testcheck.NoError(f, err)
		f.got = linesOf(b)
		b.Release()
	}
	l := f.got[0]
	f.got, f.last = f.got[1:], l.after
	if l.position(f).FileSize > 0 {
		f.Error("a file that is followed has an end")
	}
	synctest.Wait() // until the stream waits for its next poll
	return l
}

// want waits for the lines of a text. restart says whether the file starts over with them.
func (f *followed) want(text string, off int64, restart bool) {
	f.Helper()
	for s := range strings.Lines(text) {
		if l := f.next(); l.text != s || l.off != off || l.restart != restart {
			f.Fatalf("%q at %d, restart %v, want %q at %d", l.text, l.off, l.restart, s, off)
		}
		off, restart = off+int64(len(s)), false
	}
}

// TestFollow runs the scripts in testdata/follow.txtar.
func TestFollow(t *testing.T) {
	testcheck.Golden(t, "testdata/follow.txtar", func(t *testing.T, _, text string) (out string) {
		synctest.Test(t, func(t *testing.T) {
			f := newFollowed(t, "feed")
			for step := range strings.Lines(text) {
				if !strings.HasPrefix(step, "=") {
					out += step + f.step(append(strings.Fields(step), "", ""))
				}
			}
		})
		return out
	})
}

var repeated = regexp.MustCompile(`x\*\d+`)

// step does one step with the file or the stream, and returns the outcome. In a text, x*9 stands for nine x. When a
// file is removed or compressed, a program still has it open and then writes the text to it.
func (f *followed) step(words []string) (out string) {
	dir := filepath.Dir(f.path) + string(filepath.Separator)
	path := dir + words[1]
	text, err := strconv.Unquote(`"` + words[2] + `"`)
	text = repeated.ReplaceAllStringFunc(text, func(s string) string {
		n, _ := strconv.Atoi(s[2:])
		return strings.Repeat("x", n)
	})
	switch words[0] {
	case "open": // and how long it waits for a renamed file to grow
		f.wait, _ = time.ParseDuration(words[1])
		f.open()
	case "look":
		time.Sleep(time.Second)
		synctest.Wait()
	case "close":
		err = f.stream.Close()
	case "write":
		write(f, path, []byte(text))
	case "append":
		f.append(path, text)
	case "grows": // its age in real time: synctest's clock is not the file system's
		write(f, path, []byte(text))
		err = os.Chtimes(path, time.Time{}, time.Now().Add(100*365*24*time.Hour))
	case "rename":
		err = os.Rename(path, dir+words[2])
	case "gzip":
		info, serr := os.Stat(path)
		data, rerr := os.ReadFile(path)
		testcheck.NoError(f, errors.Join(serr, rerr))
		write(f, path+".gz", gz(f, data))
		testcheck.NoError(f, os.Chtimes(path+".gz", time.Time{}, info.ModTime()))
		fallthrough
	case "remove":
		w, werr := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		testcheck.NoError(f, errors.Join(werr, os.Remove(path)))
		_, err = w.WriteString(text)
		err = errors.Join(err, w.Close())
	case "read":
		n, _ := strconv.Atoi(words[1])
		for range n {
			l := f.next()
			out += fmt.Sprintf("= %d %.11q", l.off, l.text)
			if l.oversize > 0 {
				out += fmt.Sprintf(", %d bytes, too long", l.oversize)
			}
			if l.tail {
				out += ", tail"
			}
			if l.restart {
				out += ", restart"
			}
			out += "\n"
		}
	case "warnings":
		for len(f.warnings) > 0 {
			out += "= " + strings.ReplaceAll(<-f.warnings, dir, "FOLDER/") + "\n"
		}
	default:
		f.Fatalf("no such step: %s", words)
	}
	testcheck.NoError(f, err)
	return out
}

// A file that was truncated, and has grown past the old offset by the next poll, is read again from its start.
func TestFollow_TruncatedAndGrownPastTheOffset(t *testing.T) {
	line := strings.Repeat("x", 98) + "\n"
	for name, c := range map[string]struct{ before, after string }{
		"other lines":          {"a\nb\n", "c\nd\ne\n"},
		"long":                 {strings.Repeat("a"+line, 100), strings.Repeat("b"+line, 300)},
		"within a line":        {"a\nbb", "c\ndd\ne\n"},
		"the same beginning":   {strings.Repeat("a"+line, 100), strings.Repeat("a"+line, 50) + strings.Repeat("b"+line, 100)},
		"the same before it":   {"a\n" + strings.Repeat("a"+line, 100), "b\n" + strings.Repeat("a"+line, 101)},
		"a hole before it":     {"a\nb\n", "\x00\x00\x00\x00\x00\x00c\n"},
		"a hole of many bytes": {strings.Repeat("a"+line, 10_000), strings.Repeat("\x00", 1_000_100) + "c\n"},
	} {
		t.Run(name, func(t *testing.T) {
			follow(t, c.before, func(f *followed) {
				torn := strings.LastIndexByte(c.before, '\n') + 1
				f.want(c.before[:torn], 0, false)
				write(f, f.path, []byte(c.after))
				f.want(c.before[torn:], int64(torn), false)
				lines := strings.TrimLeft(c.after, "\x00")
				f.want(lines, int64(len(c.after)-len(lines)), true)
				if w := <-f.warnings; !strings.Contains(w, fmt.Sprintf("%s was truncated: it is read again from its start; what was written to it after byte %d ", f.path, len(c.before))) {
					f.Error(w)
				}
			})
		})
	}
}

// A followed file may be missing at first, and so may its folder.
func TestFollow_WaitsForTheFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFollowed(t, "later", "feed")
		src, err := file.New([]string{f.path}, source.Options{Follow: true, Log: logtest.To(func(w string) { f.warnings <- w })}, file.Options{})
		testcheck.NoError(t, err)
		defer func() { testcheck.NoError(t, src.Close()) }()
		missing := func() {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			if e, err := src.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v, %v", e.Kind, err)
			}
		}
		missing()
		if w := <-f.warnings; !strings.Contains(w, f.path+" does not exist yet: waiting for it") || len(f.warnings) > 0 {
			t.Errorf("%s, and %d more", w, len(f.warnings))
		}
		testcheck.NoError(t, os.Mkdir(filepath.Dir(f.path), 0o700))
		missing()
		f.append(f.path, "a\n")
		e, err := src.Next(t.Context())
		if err != nil || e.Kind != source.Opened || e.Lane != f.path {
			t.Fatalf("%v of %s, %v", e.Kind, e.Lane, err)
		}
		_, err = e.Begin(t.Context(), source.Point{})
		testcheck.NoError(t, err)
		if e, err = src.Next(t.Context()); err != nil || string(e.Block.Data) != "a\n" {
			t.Errorf("%v, %v", e, err)
		}
		e.Block.Release()
	})
}
