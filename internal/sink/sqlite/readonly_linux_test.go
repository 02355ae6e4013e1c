package sqlite_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sqlite"
	"github.com/weirsync/weir/internal/test/logtest"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// asReader calls f as a user who may only read the folder and its files.
func asReader(t *testing.T, dir string, f func()) {
	t.Helper()
	testcheck.NoError(t, os.Chmod(dir, 0o555))
	defer func() { testcheck.NoError(t, os.Chmod(dir, 0o755)) }()
	if os.Geteuid() == 0 {
		runtime.LockOSThread() // the rights belong to the thread
		defer runtime.UnlockOSThread()
		testcheck.NoError(t, syscall.Setfsuid(65534))
		defer func() { testcheck.NoError(t, syscall.Setfsuid(0)) }()
	}
	f()
}

// TestOpen_ReadsWhereItMayNotWrite: without a log the database is the file alone; with one the error says what SQLite
// needs.
func TestOpen_ReadsWhereItMayNotWrite(t *testing.T) {
	dir, err := os.MkdirTemp("", "weir-readonly-")
	testcheck.NoError(t, err)
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "t #%?.db")
	writer := open(t, path, sqlite.Options{})
	mustSteps(t, writer, 3).mustNext(t, 2)
	read := func() (rows int64, opening, closing error) {
		asReader(t, dir, func() {
			var d sink.Inspector
			if d, opening = sqlite.Driver.Inspect(t.Context(), path, sink.Options{Log: logtest.New(t)}); opening != nil {
				return
			}
			_, rows, err = d.Sample(t.Context(), "t", 0)
			closing = errors.Join(err, d.Close())
		})
		return rows, opening, closing
	}
	live, err, closing := read()
	if err != nil || closing != nil || live == 0 {
		t.Fatalf("next to a writer: %d rows, %v, %v", live, err, closing)
	}
	wal, err := os.ReadFile(path + "-wal")
	testcheck.NoError(t, err)
	testcheck.NoError(t, writer.Close())
	if rows, err, closing := read(); err != nil || closing != nil || rows != live {
		t.Errorf("after the writer: %d rows, want %d, %v, %v", rows, live, err, closing)
	}

	// It is written to while it is read.
	asReader(t, dir, func() {
		d, err := sqlite.Driver.Inspect(t.Context(), path, sink.Options{Log: logtest.New(t)})
		testcheck.NoError(t, err)
		if os.Geteuid() == 0 {
			err = syscall.Setfsuid(0)
		}
		f, werr := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
		testcheck.NoError(t, errors.Join(err, werr))
		_, err = f.Write(make([]byte, 4096))
		testcheck.NoError(t, errors.Join(err, f.Close()))
		if err := d.Close(); err == nil || !strings.Contains(err.Error(), "was written to while it was read") {
			t.Error(err)
		}
	})

	// As after a crash.
	testcheck.NoError(t, os.WriteFile(path+"-wal", wal, 0o644))
	if _, err, _ := read(); err == nil || !strings.Contains(err.Error(), path+"-wal holds what was committed last") || !strings.Contains(err.Error(), path+"-shm") {
		t.Errorf("with a log: %v", err)
	}
}
