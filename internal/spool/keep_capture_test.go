package spool

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// TestCapture_KeepsEachLine: blocks keep the source's own cursors. A last line without a newline gets one only on disk.
func TestCapture_KeepsEachLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, "", Config{Folders: Folders{Capture: t.TempDir()}})
		if s.lane.Type == source.Spooled || s.lane.At != "" {
			t.Errorf("its type is %q, it starts at %s", s.lane.Type, s.lane.At)
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
		if _, err := s.Next(t.Context()); err != io.EOF {
			t.Error(err)
		}
		if end := s.log.end; end != 10 {
			t.Errorf("%d bytes are captured", end)
		}
		s.end()
	})
}

// TestCapture_FailsUnderAQuietSource: a disk error ends the run even if the source delivers nothing.
func TestCapture_FailsUnderAQuietSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := start(t, "", Config{Folders: Folders{Capture: dir}})
		for _, line := range []string{"1\n", "2\n"} { // each in its own segment
			go s.send(line)
			s.want(line, 1)
			time.Sleep(captureAge)
		}
		go s.send("3\n")
		s.want("3\n", 1)
		testcheck.NoError(t, os.RemoveAll(dir)) // before the segment of 2 is compressed
		_, err := s.Next(t.Context())
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the capture ends with %v", err)
		}
		if failed := s.Close(); failed != err {
			t.Errorf("Close returns %v, and not the error of Next: %v", failed, err)
		}
	})
}

// TestCapture_StopsOnAFullDisk: a capture that waits for room ends when it is stopped, and no longer reports that it
// waits.
func TestCapture_StopsOnAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, "", Config{Folders: Folders{Capture: t.TempDir()}})
		go s.send("1\n")
		s.want("1\n", 1)
		s.disk.room.Store(1)
		go s.send("2\n3\n")
		time.AfterFunc(time.Minute, s.Stop)
		if _, err := s.Next(t.Context()); err != io.EOF {
			t.Error(err)
		}
		testcheck.NoError(t, s.Close())
		close(s.said)
		var said []string
		for text := range s.said {
			said = append(said, text)
		}
		want := []string{"pause capture_disk_full", "stopped while there was no room: the lines that were read last are lost", "pause "}
		slices.Sort(said)
		slices.Sort(want)
		if !slices.Equal(said, want) {
			t.Errorf("said: %q", said)
		}
	})
}
