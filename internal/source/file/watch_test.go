package file_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/source/file"
	"github.com/weirsync/weir/internal/test/logtest"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// A renamed file is read as long as its writer appends to it, with pauses shorter than the wait. What comes later is
// counted.
func TestFollow_RenamedFileIsReadUntilItIsQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFollowed(t, "feed")
		write(t, f.path, []byte("a\n"))
		f.wait = 5 * time.Second
		f.open()
		f.want("a\n", 0, false)
		testcheck.NoError(t, os.Rename(f.path, f.path+".1"))
		f.append(f.path, "new\n")
		for i := range 10 {
			time.Sleep(4 * time.Second)
			f.append(f.path+".1", "x\n")
			f.want("x\n", int64(2+2*i), false)
		}
		f.want("new\n", 0, true)
		f.append(f.path+".1", "late\nlater\n")
		f.append(f.path, "b\n")
		f.want("b\n", 4, false)
		if w := <-f.warnings; w != f.path+" was replaced: the old file is read until it has not grown for 5s" {
			t.Error(w)
		}
		if w := <-f.warnings; !strings.Contains(w, f.path+": lines written to the file before it, more than 5s after its rotation: 2; they are not read") {
			t.Error(w)
		}
	})
}

// A watching is a folder that a test fills and a source follows.
type watching struct {
	*testing.T
	dir   string
	src   source.Source
	begun []string                 // lanes, in the order in which they were offered
	at    map[string]source.Cursor // by lane, after its last line
	text  map[string]string        // what was read, by lane
	open  map[string]bool
}

// watch calls do with a source that follows names in a folder.
func watch(t *testing.T, do func(w *watching), names ...string) {
	synctest.Test(t, func(t *testing.T) {
		w := &watching{T: t, dir: t.TempDir(), at: map[string]source.Cursor{}, text: map[string]string{}, open: map[string]bool{}}
		for i := range names {
			names[i] = filepath.Join(w.dir, names[i])
		}
		var err error
		w.src, err = file.Kind(file.Options{RotateWait: time.Second}).Open(t.Context(), names, source.Options{Follow: true, Log: logtest.New(t)})
		testcheck.NoError(t, err)
		defer func() { testcheck.NoError(t, w.src.Close()) }()
		do(w)
	})
}

func (w *watching) write(name, text string) {
	w.Helper()
	f, err := os.OpenFile(filepath.Join(w.dir, name), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	testcheck.NoError(w, err)
	_, err = f.WriteString(text)
	testcheck.NoError(w, errors.Join(err, f.Close()))
}

// next handles one event, or reports that none comes within a minute.
func (w *watching) next() bool {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
	defer cancel()
	e, err := w.src.Next(ctx)
	if errors.Is(err, context.DeadlineExceeded) || err == io.EOF {
		return false
	}
	testcheck.NoError(w, err)
	name := filepath.Base(e.Lane)
	switch e.Kind {
	case source.Opened:
		if w.open[name] {
			w.Errorf("%s is open and offered again", name)
		}
		w.begun = append(w.begun, name)
		_, err := e.Begin(w.Context(), source.Point{Cursor: w.at[name]})
		if err != io.EOF {
			testcheck.NoError(w, err)
		}
		w.open[name] = true
	case source.Closing:
		testcheck.NoError(w, e.Err)
		delete(w.open, name)
	case source.Data:
		w.text[name] += string(e.Block.Data)
		w.at[name] = e.Block.CursorAfter(len(e.Block.Data))
		e.Block.Release()
	}
	return true
}

func TestWatch_MoreFilesThanMayBeOpen(t *testing.T) {
	watch(t, func(w *watching) {
		const files = 400
		for i := range files {
			w.write(fmt.Sprintf("%04d", i), "a\n")
		}
		for w.next() {
			if len(w.open) > 250 {
				t.Fatalf("%d files are open", len(w.open))
			}
		}
		testcheck.NoError(t, os.Rename(filepath.Join(w.dir, "0001"), filepath.Join(w.dir, "0001.old")))
		w.write("0001", "c\n")
		for i := range files {
			if i != 1 {
				w.write(fmt.Sprintf("%04d", i), "b\n")
			}
		}
		for w.next() {
		}
		for i := range files {
			name, want := fmt.Sprintf("%04d", i), "a\nb\n"
			if i == 1 {
				want = "a\nc\n"
			}
			if w.text[name] != want {
				t.Fatalf("%s: read %q, want %q", name, w.text[name], want)
			}
		}
	}, "????")
}
