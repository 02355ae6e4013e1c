package source_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/source"
)

// followed is a file that a test writes to and a stream follows.
type followed struct {
	*testing.T
	path     string
	stream   *source.Stream
	got      []line // not yet expected
	number   int64
	warnings chan string
}

func follow(t *testing.T, content string) *followed {
	f := &followed{T: t, path: tempFile(t, []byte(content)), warnings: make(chan string, 10)}
	f.open(source.Position{})
	return f
}

func (f *followed) open(from source.Position) {
	f.stream = open(f, f.path, source.Options{
		Follow: true, Poll: time.Millisecond, MaxLine: 1000,
		Warn: func(w string) { f.warnings <- w },
	}, from)
	f.number = from.Line
}

func (f *followed) append(s string) {
	f.Helper()
	w, err := os.OpenFile(f.path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		f.Fatal(err)
	}
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
		f.stream.Release(b)
	}
	l := f.got[0]
	f.got = f.got[1:]
	if l.text != text || l.off != off {
		f.Fatalf("%q at %d, want %q at %d", l.text, l.off, text, off)
	}
	return l
}

func TestFollow_GrowthAndHalfLines(t *testing.T) {
	f := follow(t, "")
	f.append("a\n")
	f.want("a\n", 0)
	f.append("b\nc")
	f.want("b\n", 2)
	f.append("d")
	f.append("\n" + strings.Repeat("x", 2000))
	f.want("cd\n", 4)
	f.append("x\nend\n")
	if l := f.want(strings.Repeat("x", 2001)+"\n", 7); l.oversize != 2002 {
		t.Errorf("oversize %d", l.oversize)
	}
	f.want("end\n", 2009)
}

func TestFollow_ResumesAndWaits(t *testing.T) {
	f := follow(t, "a\nb\n")
	after := f.want("a\n", 0).after
	end := f.want("b\n", 2).after
	f.stream.Close()
	f.open(after)
	f.want("b\n", 2)
	f.stream.Close()
	f.open(end)
	f.append("c\n")
	if l := f.want("c\n", 4); l.after.Line != 3 || l.after.FileSize != 0 {
		t.Errorf("position %+v", l.after)
	}
}

func TestFollow_Truncation(t *testing.T) {
	f := follow(t, "a\nbbbbbbbbb\nto")
	f.want("a\n", 0)
	f.want("bbbbbbbbb\n", 2)
	if err := os.Truncate(f.path, 0); err != nil {
		t.Fatal(err)
	}
	// What was left without a newline comes out as the end of the old stream.
	if l := f.want("to", 12); !l.tail || l.restart {
		t.Errorf("%+v", l)
	}
	if w := <-f.warnings; !strings.Contains(w, f.path+" was truncated") {
		t.Error(w)
	}
	f.append("new\n")
	l := f.want("new\n", 0)
	if !l.restart || l.after.Line != 1 {
		t.Errorf("%+v", l)
	}
	f.stream.Close()
	f.open(l.after)
	f.append("more\n")
	f.want("more\n", 4)
}

func TestFollow_Rotation(t *testing.T) {
	f := follow(t, "a\n")
	f.want("a\n", 0)
	for range 3 {
		old := f.path + ".1"
		if err := os.Rename(f.path, old); err != nil {
			t.Fatal(err)
		}
		// The writer has the old file open for a while yet.
		rotated := *f
		rotated.path = old
		rotated.append("late\nlast")
		f.want("late\n", 2)
		f.append("b\n")
		if l := f.want("last", 7); !l.tail {
			t.Errorf("%+v", l)
		}
		if l := f.want("b\n", 0); !l.restart || l.after.Line != 1 {
			t.Errorf("%+v", l)
		}
	}
}

func TestFollow_RemovedFileIsReadToItsEnd(t *testing.T) {
	f := follow(t, "a\n")
	f.want("a\n", 0)
	w, err := os.OpenFile(f.path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := os.Remove(f.path); err != nil {
		t.Fatal(err)
	}
	w.WriteString("b\n")
	f.want("b\n", 2)
	write(t, filepath.Clean(f.path), []byte("c\n"))
	if l := f.want("c\n", 0); !l.restart {
		t.Errorf("%+v", l)
	}
}

func TestFollow_CloseEndsTheWait(t *testing.T) {
	f := follow(t, "a\n")
	f.want("a\n", 0)
	if err := f.stream.Close(); err != nil {
		t.Error(err)
	}
	// Not a single byte was written after a rename.
	f = follow(t, "a\n")
	f.want("a\n", 0)
	os.Rename(f.path, f.path+".1")
	f.stream.Close()
}
