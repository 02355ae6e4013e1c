package spool_test

import (
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
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/weirsync/weir/internal/spool"
	"github.com/weirsync/weir/internal/test/testcheck"
)

func lock(t *testing.T, dir string) io.Closer {
	t.Helper()
	locked, err := spool.Lock(dir)
	testcheck.NoError(t, err)
	return locked
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

// TestCaptures_NamesAreInTheOrderOfTheLines: whatever the clock does. Other files are left alone.
func TestCaptures_NamesAreInTheOrderOfTheLines(t *testing.T) {
	dir := t.TempDir()
	rnd := rand.New(rand.NewPCG(4, 1))
	now := time.Date(2026, 11, 21, 10, 45, 0, 999_999, time.UTC)
	const other = "99990101T000000.000Z.jsonl.zst.bak"
	testcheck.NoError(t, os.WriteFile(filepath.Join(dir, other), nil, 0o600))
	locked := lock(t, dir)
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
		testcheck.NoError(t, spool.AddCapture(dir, now, strings.NewReader(line)))
	}
	testcheck.NoError(t, locked.Close())
	paths := captured(t, dir)
	if len(paths) != len(want)+1 || filepath.Base(paths[0]) != "20261121T104500.000Z.jsonl.zst" || filepath.Base(paths[len(want)]) != other {
		t.Fatalf("there are %d captures, want %d: %s to %s", len(paths), len(want)+1, paths[0], paths[len(paths)-1])
	}
	for n, path := range paths[:len(want)] {
		if got := contentOf(t, path); got != want[n] {
			t.Fatalf("capture %d, %s, has %q", n, path, got)
		}
	}
}

// TestCaptures_OneRunAtATime: a second run is refused, and removes nothing of the first's.
func TestCaptures_OneRunAtATime(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "captures")
	locked := lock(t, dir)
	if _, err := spool.Lock(dir); err == nil || !strings.Contains(err.Error(), "another run uses the folder "+dir+": name another one") {
		t.Errorf("a second run got %v", err)
	}
	if err := spool.AddCapture(dir, time.Now(), broken{}); err == nil {
		t.Error("no error")
	}
	if left := captured(t, dir); len(left) > 0 {
		t.Errorf("a capture that failed left %q", left)
	}
	testcheck.NoError(t, spool.AddCapture(dir, time.Now(), strings.NewReader("{}\n")))
	testcheck.NoError(t, locked.Close())
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
