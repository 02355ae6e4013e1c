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

// TestOpen_ReadsWhereItMayNotWrite: a database next to its writer can be read; without one, the error says what SQLite
// needs.
func TestOpen_ReadsWhereItMayNotWrite(t *testing.T) {
	dir, err := os.MkdirTemp("", "weir-readonly-")
	testcheck.NoError(t, err)
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "t #%?.db")
	writer := open(t, path, sqlite.Options{})
	mustSteps(t, writer, 3).mustNext(t, 2)
	read := func() (rows int64, err error) {
		asReader(t, dir, func() {
			var d sink.Inspector
			if d, err = sqlite.Driver.Inspect(t.Context(), path, sink.Options{Log: logtest.New(t)}); err == nil {
				_, rows, err = d.Sample(t.Context(), "t", 0)
				err = errors.Join(err, d.Close())
			}
		})
		return rows, err
	}
	if rows, err := read(); err != nil || rows == 0 {
		t.Fatalf("next to a writer: %d rows, %v", rows, err)
	}
	testcheck.NoError(t, writer.Close())
	if _, err := read(); err == nil || !strings.Contains(err.Error(), "run this as the owner of the file") {
		t.Errorf("after the writer: %v", err)
	}
}
