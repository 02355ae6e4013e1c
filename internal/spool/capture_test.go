package spool

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/testcheck"
)

// TestCapture_KeepsEachLine: blocks keep the source's own cursors, and a last line without an end gets one on
// the disk alone.
func TestCapture_KeepsEachLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, "", Config{Folders: Folders{Capture: t.TempDir()}})
		if s.begun.Kept || s.begun.At != "" {
			t.Errorf("kept %v, it starts at %s", s.begun.Kept, s.begun.At)
		}
		go func() {
			for i := range 5 {
				b := s.feed.block(fmt.Sprintln(i))
				b.Tail = i == 4
				if b.Tail {
					b.Data = b.Data[:1]
				}
				b.At = func(int) source.Cursor { return source.Cursor(fmt.Sprint(i)) }
				s.feed.blocks <- b
			}
			close(s.feed.blocks)
		}()
		for i := range 5 {
			time.Sleep(time.Hour)
			want := fmt.Sprintln(i)
			if i == 4 {
				want = "4"
			}
			if got := s.want(want, 1).CursorAfter(1); got != source.Cursor(fmt.Sprint(i)) {
				t.Errorf("the cursor is %s", got)
			}
		}
		if _, err := s.q.Next(t.Context()); err != io.EOF {
			t.Error(err)
		}
		if _, end := s.store.log.Bounds(); end != 10 {
			t.Errorf("%d bytes are captured", end)
		}
		s.end()
	})
}

// TestCapture_FailsUnderAQuietSource: an error of the disk ends the run though the source brings nothing.
func TestCapture_FailsUnderAQuietSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := start(t, "", Config{Folders: Folders{Capture: dir}})
		for _, line := range []string{"1\n", "2\n"} { // each in a segment
			go s.send(line)
			s.want(line, 1)
			time.Sleep(captureAge)
		}
		go s.send("3\n")
		s.want("3\n", 1)
		testcheck.NoError(t, os.RemoveAll(dir)) // before the segment of 2 is compressed
		_, err := s.q.Next(t.Context())
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the capture ends with %v", err)
		}
		if failed := s.q.Close(); failed != err {
			t.Errorf("Close returns %v, and not the error of Next: %v", failed, err)
		}
	})
}
