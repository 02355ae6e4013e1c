package file_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirsync/weir/internal/logtest"
	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/source/file"
	"github.com/weirsync/weir/internal/testcheck"
)

// followed is a file that a test writes to and a stream follows.
type followed struct {
	*testing.T
	path     string
	stream   *file.Stream
	got      []line // not yet expected
	number   int64
	warnings chan string
}

// follow has do write to a file of some content that is followed. The stream looks at the file
// only while do waits for a line.
func follow(t *testing.T, content string, do func(f *followed)) {
	synctest.Test(t, func(t *testing.T) {
		f := &followed{T: t, path: tempFile(t, []byte(content)), warnings: make(chan string, 100)}
		f.open(place{})
		do(f)
	})
}

func (f *followed) open(from place) {
	f.stream = open(f, f.path, source.Options{
		Follow: true, MaxLine: 1000,
		Log: logtest.To(func(w string) { f.warnings <- w }),
	}, from)
	f.number = from.Line
}

func (f *followed) append(s string) {
	f.Helper()
	w, err := os.OpenFile(f.path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	testcheck.NoError(f, err)
	defer w.Close()
	if _, err := w.WriteString(s); err != nil {
		f.Fatal(err)
	}
}

// want waits for one line.
func (f *followed) want(text string, off int64) line {
	f.Helper()
	for len(f.got) == 0 {
		b, err := f.stream.Next(deadline(f.T))
		if err != nil {
			f.Fatalf("waiting for %q: %v", text, err)
		}
		if b.Restart {
			f.number = 0
		}
		f.got = linesOf(b, f.number)
		f.number += int64(len(f.got))
		b.Release()
	}
	l := f.got[0]
	f.got = f.got[1:]
	if l.text != text || l.off != off {
		f.Fatalf("%q at %d, want %q at %d", l.text, l.off, text, off)
	}
	synctest.Wait() // until the stream waits for its next look
	return l
}

func TestFollow_GrowthAndHalfLines(t *testing.T) {
	follow(t, "", func(f *followed) {
		f.append("a\n")
		f.want("a\n", 0)
		f.append("b\nc")
		f.want("b\n", 2)
		f.append("d")
		f.append("\n" + strings.Repeat("x", 2000))
		f.want("cd\n", 4)
		f.append("x\nend\n")
		if l := f.want(strings.Repeat("x", 2001)+"\n", 7); l.oversize != 2002 {
			f.Errorf("oversize %d", l.oversize)
		}
		f.want("end\n", 2009)
	})
}

func TestFollow_ResumesAndWaits(t *testing.T) {
	follow(t, "a\nb\n", func(f *followed) {
		after := f.want("a\n", 0).after
		end := f.want("b\n", 2).after
		f.stream.Close()
		f.open(after)
		f.want("b\n", 2)
		f.stream.Close()
		f.open(end)
		f.append("c\n")
		if l := f.want("c\n", 4); l.after.Line != 3 || l.after.FileSize != 0 {
			f.Errorf("position %+v", l.after)
		}
	})
}

func TestFollow_Truncation(t *testing.T) {
	follow(t, "a\nbbbbbbbbb\nto", func(f *followed) {
		f.want("a\n", 0)
		f.want("bbbbbbbbb\n", 2)
		testcheck.NoError(f, os.Truncate(f.path, 0))
		// What was left without a newline comes out as the end of the old stream.
		if l := f.want("to", 12); !l.tail || l.restart {
			f.Errorf("%+v", l)
		}
		if w := <-f.warnings; !strings.Contains(w, f.path+" was truncated") {
			f.Error(w)
		}
		f.append("new\n")
		l := f.want("new\n", 0)
		if !l.restart || l.after.Line != 1 {
			f.Errorf("%+v", l)
		}
		f.stream.Close()
		f.open(l.after)
		f.append("more\n")
		f.want("more\n", 4)
	})
}

// A file that was truncated, and has grown past the old offset when it is looked at next, is
// read again from its start.
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
				off := int64(0)
				for l := range strings.SplitAfterSeq(c.before, "\n") {
					if strings.HasSuffix(l, "\n") {
						f.want(l, off)
					}
					off += int64(len(l))
				}
				write(f, f.path, []byte(c.after))
				if _, torn := cutLast(c.before); torn != "" {
					f.want(torn, off-int64(len(torn)))
				}
				restart := true
				lines := strings.TrimLeft(c.after, "\x00")
				off = int64(len(c.after) - len(lines))
				for l := range strings.Lines(lines) {
					if got := f.want(l, off); got.restart != restart {
						f.Fatalf("%+v", got)
					}
					off, restart = off+int64(len(l)), false
				}
				if w := <-f.warnings; !strings.Contains(w, fmt.Sprintf("%s was truncated: it is read again from its start; what was written to it after byte %d ", f.path, len(c.before))) {
					f.Error(w)
				}
			})
		})
	}
}

// cutLast cuts off what is behind the last newline.
func cutLast(s string) (lines, torn string) {
	at := strings.LastIndexByte(s, '\n') + 1
	return s[:at], s[at:]
}

// TestFollow_NothingInTheFileIsLost appends, truncates, rewrites and rotates at random, by
// more or less than there was, and expects every line that the file has at a look.
func TestFollow_NothingInTheFileIsLost(t *testing.T) {
	for seed := range uint64(20) {
		follow(t, "", func(f *followed) {
			rnd := rand.New(rand.NewPCG(seed, 0))
			number, off := 0, int64(0)
			for range 60 {
				var lines strings.Builder
				for range rnd.IntN(9) + 1 {
					fmt.Fprintf(&lines, "%d%s\n", number, strings.Repeat("x", rnd.IntN(700)))
					number++
				}
				restarts := true
				switch rnd.IntN(4) {
				case 0:
					write(f, f.path, []byte(lines.String()))
				case 1:
					testcheck.NoError(f, os.Rename(f.path, f.path+".1"))
					f.append(lines.String())
				default:
					restarts = false
					f.append(lines.String())
				}
				if restarts {
					off = 0
				}
				for l := range strings.Lines(lines.String()) {
					f.want(l, off)
					off += int64(len(l))
				}
			}
		})
	}
}

// A file to follow is waited for, and so is its folder.
func TestFollow_WaitsForTheFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &followed{T: t, path: filepath.Join(t.TempDir(), "later", "feed"), warnings: make(chan string, 100)}
		opened := make(chan bool)
		go func() { f.open(place{}); close(opened) }()
		time.Sleep(time.Hour)
		if w := <-f.warnings; !strings.Contains(w, f.path+" does not exist yet: waiting for it") || len(f.warnings) > 0 {
			t.Errorf("%s, and %d more", w, len(f.warnings))
		}
		testcheck.NoError(t, os.Mkdir(filepath.Dir(f.path), 0o700))
		time.Sleep(time.Hour)
		f.append("a\n")
		<-opened
		f.want("a\n", 0)
		f.append("b\n")
		f.want("b\n", 2)

		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, stop)
		if _, err := file.Open(ctx, f.path+"2", source.Options{Follow: true}, ""); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

func TestFollow_Rotation(t *testing.T) {
	follow(t, "a\n", func(f *followed) {
		f.want("a\n", 0)
		for range 3 {
			old := f.path + ".1"
			testcheck.NoError(f, os.Rename(f.path, old))
			// The writer has the old file open for a while yet.
			rotated := *f
			rotated.path = old
			rotated.append("late\nlast")
			f.want("late\n", 2)
			f.append("b\n")
			if l := f.want("last", 7); !l.tail {
				f.Errorf("%+v", l)
			}
			if l := f.want("b\n", 0); !l.restart || l.after.Line != 1 {
				f.Errorf("%+v", l)
			}
		}
	})
}

func TestFollow_RemovedFileIsReadToItsEnd(t *testing.T) {
	follow(t, "a\n", func(f *followed) {
		f.want("a\n", 0)
		w, err := os.OpenFile(f.path, os.O_APPEND|os.O_WRONLY, 0)
		testcheck.NoError(f, err)
		defer w.Close()
		testcheck.NoError(f, os.Remove(f.path))
		w.WriteString("b\n")
		f.want("b\n", 2)
		write(f, filepath.Clean(f.path), []byte("c\n"))
		if l := f.want("c\n", 0); !l.restart {
			f.Errorf("%+v", l)
		}
	})
}

func TestFollow_CloseEndsTheWait(t *testing.T) {
	follow(t, "a\n", func(f *followed) {
		f.want("a\n", 0)
		if err := f.stream.Close(); err != nil {
			f.Error(err)
		}
	})
	follow(t, "a\n", func(f *followed) {
		f.want("a\n", 0)
		os.Rename(f.path, f.path+".1") // not a single byte was written after it
		f.stream.Close()
	})
}

// rotate gives a followed file's content other names, in order, and then begins a new one.
func (f *followed) rotate(content string, renames ...string) {
	f.Helper()
	for i := 0; i < len(renames); i += 2 {
		old, name := renames[i], renames[i+1]
		testcheck.NoError(f, os.Rename(f.path+old, f.path+name))
	}
	f.append(content)
}

// A file that was rotated again before weir looked at it is read in its turn.
func TestFollow_RotatedTwiceBetweenTwoLooks(t *testing.T) {
	for name, rotations := range map[string][][]string{
		"numbers": {{"", ".1"}, {".1", ".2", "", ".1"}, {".2", ".3", ".1", ".2", "", ".1"}},
		"dates":   {{"", "-20241129"}, {"", "-20241130"}, {"", "-20241201"}},
	} {
		t.Run(name, func(t *testing.T) {
			follow(t, "a\n", func(f *followed) {
				write(f, f.path+"5.1", []byte("another feed\n"))
				f.want("a\n", 0)
				for i, renames := range rotations {
					f.rotate(string("bcd"[i])+"\n", renames...)
				}
				for _, line := range []string{"b\n", "c\n", "d\n"} {
					if l := f.want(line, 0); !l.restart {
						t.Errorf("%q is not the beginning of a file", line)
					}
				}
				f.append("e\n")
				f.want("e\n", 2)
			})
		})
	}
}

// A predecessor that still grows is not read again, nor is a file whose place is not known; both are named.
func TestFollow_NamesFilesThatItMayHaveMissed(t *testing.T) {
	for name, c := range map[string]struct {
		others  map[string]string
		removed bool // the file that was read before
		warning string
	}{
		"one rotation":           {others: map[string]string{"notes": "", "lock": ""}},
		"a growing predecessor":  {others: map[string]string{".2": "x\n"}, warning: "sync them too: feed.2"},
		"compressed meanwhile":   {others: map[string]string{".0.gz": "x"}, warning: "sync them too: feed.0.gz"},
		"the old one is removed": {others: map[string]string{".7": "x\n"}, removed: true, warning: "sync them too: feed.7"},
		"removed, nothing else":  {removed: true},
	} {
		t.Run(name, func(t *testing.T) {
			follow(t, "a\n", func(f *followed) {
				f.want("a\n", 0)
				later := time.Now().Add(100 * 365 * 24 * time.Hour) // synctest's clock is not the file system's
				for suffix, content := range c.others {
					write(f, f.path+suffix, []byte(content))
					testcheck.NoError(t, os.Chtimes(f.path+suffix, time.Time{}, later))
				}
				f.rotate("b\n", "", ".1")
				if c.removed {
					testcheck.NoError(t, os.Remove(filepath.Clean(f.path+".1")))
				}
				f.want("b\n", 0)
				warning := ""
				if len(f.warnings) > 0 {
					warning = <-f.warnings
				}
				if (c.warning == "") != (warning == "") || !strings.HasSuffix(warning, c.warning) {
					t.Errorf("warned %q, want %q", warning, c.warning)
				}
			})
		})
	}
}
