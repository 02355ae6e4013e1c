package spool_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/weirsync/weir/internal/spool"
	"github.com/weirsync/weir/internal/test/testcheck"
)

func captures(t *testing.T, dir string, keep time.Duration) *spool.Captures {
	t.Helper()
	c, err := spool.OpenCaptures(dir, keep)
	testcheck.NoError(t, err)
	return c
}

// captured returns the files that match a pattern, in the order in which programs read them.
func captured(t *testing.T, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*"))
	testcheck.NoError(t, err)
	return slices.DeleteFunc(paths, func(path string) bool {
		info, err := os.Stat(path)
		testcheck.NoError(t, err)
		return info.IsDir()
	})
}

func contentOf(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(path)
	testcheck.NoError(t, err)
	defer f.Close()
	z, err := zstd.NewReader(f)
	testcheck.NoError(t, err)
	defer z.Close()
	text, err := io.ReadAll(z)
	testcheck.NoError(t, err)
	return string(text)
}

// TestCaptures_NamesAreInTheOrderOfTheLines: whatever the clock does, over runs, and even if files are moved away.
func TestCaptures_NamesAreInTheOrderOfTheLines(t *testing.T) {
	dir, archive := t.TempDir(), t.TempDir()
	rnd := rand.New(rand.NewPCG(4, 1))
	now := time.Date(2026, 11, 21, 10, 45, 0, 0, time.UTC)
	c := captures(t, dir, 0)
	var want []string
	for n := range 300 {
		switch rnd.IntN(5) {
		case 0:
			now = now.Add(time.Minute)
		case 1:
			now = now.Add(-time.Hour)
		}
		line := fmt.Sprintf("{\"n\":%d}\n", n)
		want = append(want, line)
		testcheck.NoError(t, c.Add(now, strings.NewReader(line)))
		if rnd.IntN(4) == 0 {
			for _, path := range captured(t, dir) {
				testcheck.NoError(t, os.Rename(path, filepath.Join(archive, filepath.Base(path))))
			}
		}
		switch rnd.IntN(6) {
		case 0:
			testcheck.NoError(t, c.Close())
			c = captures(t, dir, 0)
		case 1: // without the state file, the files' names tell
			testcheck.NoError(t, c.Close())
			if len(captured(t, dir)) > 0 {
				testcheck.NoError(t, os.RemoveAll(filepath.Join(dir, ".weir")))
			}
			c = captures(t, dir, 0)
		}
	}
	testcheck.NoError(t, c.Close())
	for _, path := range captured(t, dir) {
		testcheck.NoError(t, os.Rename(path, filepath.Join(archive, filepath.Base(path))))
	}
	paths := captured(t, archive)
	if len(paths) != len(want) {
		t.Fatalf("there are %d captures, want %d", len(paths), len(want))
	}
	for n, path := range paths {
		if got := contentOf(t, path); got != want[n] {
			t.Fatalf("capture %d, %s, has %q", n, path, got)
		}
	}
}

// TestCaptures_OneRunAtATime: a second run is refused, and removes nothing of the first's.
func TestCaptures_OneRunAtATime(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "captures")
	c := captures(t, dir, 0)
	if _, err := spool.OpenCaptures(dir, 0); err == nil || !strings.Contains(err.Error(), "another run uses the folder "+dir+": name another one") {
		t.Errorf("a second run got %v", err)
	}
	if err := c.Add(time.Now(), broken{}); err == nil {
		t.Error("no error")
	}
	if left := captured(t, dir); len(left) > 0 {
		t.Errorf("a capture that failed left %q", left)
	}
	testcheck.NoError(t, c.Add(time.Now(), strings.NewReader("{}\n")))
	testcheck.NoError(t, c.Close())
	for path, want := range map[string]os.FileMode{dir: 0o700, captured(t, dir)[0]: 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, %v", path, info.Mode(), err)
		}
	}
}

// broken is a content that cannot be read to its end.
type broken struct{}

func (broken) WriteTo(w io.Writer) (int64, error) {
	n, err := io.WriteString(w, "{}\n")
	return int64(n), errors.Join(err, errors.New("broken"))
}

// TestCaptures_OldOnesAreRemoved: captures whose lines are all too old are removed, except the last one. Other files
// are left alone.
func TestCaptures_OldOnesAreRemoved(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		c := captures(t, dir, 24*time.Hour)
		others := []string{"000000000000-20000101T000000.000Z.jsonl.zst.bak", "20000101T000000.000Z.jsonl.zst", "notes.txt"}
		for _, name := range others {
			testcheck.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
		}
		left := func(want ...string) {
			t.Helper()
			var got []string
			for _, path := range captured(t, dir) {
				if !slices.Contains(others, filepath.Base(path)) {
					got = append(got, strings.TrimSpace(contentOf(t, path)))
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%v are left, want %v", got, want)
			}
			for _, name := range others {
				if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
					t.Error(err)
				}
			}
		}
		add := func(text string) {
			t.Helper()
			testcheck.NoError(t, c.Add(time.Now(), strings.NewReader(text+"\n")))
		}
		add("monday")
		time.Sleep(23 * time.Hour)
		add("tuesday")
		left("monday", "tuesday")
		time.Sleep(23 * time.Hour)
		add("wednesday") // monday's last line may be from 23:00
		left("monday", "tuesday", "wednesday")
		time.Sleep(time.Hour)
		add("thursday")
		left("tuesday", "wednesday", "thursday")
		time.Sleep(1000 * time.Hour)
		add("years later")
		left("thursday", "years later")
		testcheck.NoError(t, c.Close())
	})
	if _, err := os.Stat(filepath.Join(dir, ".weir", "new.part")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a part is left: %v", err)
	}
}

func TestIsFull(t *testing.T) {
	for _, err := range []error{syscall.ENOSPC, syscall.EDQUOT} {
		if !spool.IsFull(&fs.PathError{Op: "write", Path: "x", Err: err}) {
			t.Errorf("%v is no full disk", err)
		}
	}
	if spool.IsFull(syscall.EIO) {
		t.Error("a broken disk is full")
	}
}

// TestCompatibility_Captures: the captures of an earlier version are read, and the next one gets the next number;
// -update writes some of today's format, whose number names their folder.
func TestCompatibility_Captures(t *testing.T) {
	const fixtures = "../../testdata/compatibility/captures"
	add := func(dir, line string) {
		c := captures(t, dir, 0)
		testcheck.NoError(t, errors.Join(c.Add(time.Now(), strings.NewReader(line)), c.Close()))
	}
	if *testcheck.Update {
		dir := t.TempDir()
		add(dir, "{\"id\":1}\n")
		add(dir, "{\"id\":2}\n")
		testcheck.NoError(t, errors.Join(os.Remove(captured(t, dir)[1]), os.Remove(filepath.Join(dir, ".weir", "lock")))) // moved away
		text, err := os.ReadFile(filepath.Join(dir, ".weir", "captures.json"))
		testcheck.NoError(t, err)
		var state struct{ Format int }
		testcheck.NoError(t, json.Unmarshal(text, &state))
		to := filepath.Join(fixtures, fmt.Sprint(state.Format))
		testcheck.NoError(t, errors.Join(os.RemoveAll(to), os.CopyFS(to, os.DirFS(dir))))
	}
	formats, err := os.ReadDir(fixtures)
	testcheck.NoError(t, err)
	for _, f := range formats {
		dir := filepath.Join(t.TempDir(), f.Name())
		testcheck.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join(fixtures, f.Name()))))
		add(dir, "{\"id\":3}\n")
		got := captured(t, dir)
		if len(got) != 2 || !strings.HasPrefix(filepath.Base(got[1]), "000000000003-") || contentOf(t, got[0])+contentOf(t, got[1]) != "{\"id\":1}\n{\"id\":3}\n" {
			t.Errorf("format %s: captures are %q", f.Name(), got)
		}
	}
}
