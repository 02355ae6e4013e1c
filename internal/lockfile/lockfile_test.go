package lockfile_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/weirsync/weir/internal/lockfile"
	"github.com/weirsync/weir/internal/testcheck"
)

// TestMain is also the other process: with a path it locks a byte of that file, alone or
// SHARED, says so, and waits for the end of its stdin.
func TestMain(m *testing.M) {
	path := os.Getenv("LOCK")
	if path == "" {
		os.Exit(m.Run())
	}
	f, err := lockfile.Open(path)
	if err == nil {
		lock := f.Lock
		if os.Getenv("SHARED") != "" {
			lock = f.LockShared
		}
		var busy bool
		busy, err = lock(7)
		fmt.Println(busy)
	}
	if err != nil {
		fmt.Println(err)
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// otherBusy reports whether another process finds byte 7 locked. The process has the lock,
// if it could get it, until end is called.
func otherBusy(t *testing.T, path string, env ...string) (busy bool, end func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), "LOCK="+path), env...)
	in, err := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	testcheck.NoError(t, errors.Join(err, err2, cmd.Start()))
	said, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || said != "true\n" && said != "false\n" {
		t.Fatalf("the other process says %q, %v", said, err)
	}
	return said == "true\n", func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
}

func open(t *testing.T, path string) *lockfile.File {
	t.Helper()
	f, err := lockfile.Open(path)
	testcheck.NoError(t, err)
	return f
}

func lock(t *testing.T, f *lockfile.File, at int64, want bool) {
	t.Helper()
	if busy, err := f.Lock(at); busy != want || err != nil {
		t.Errorf("byte %d is busy: %v, %v; want %v", at, busy, err, want)
	}
}

func share(t *testing.T, f *lockfile.File, at int64, want bool) {
	t.Helper()
	if busy, err := f.LockShared(at); busy != want || err != nil {
		t.Errorf("byte %d, shared, is busy: %v, %v; want %v", at, busy, err, want)
	}
}

func unlock(t *testing.T, f *lockfile.File, at int64) {
	t.Helper()
	if err := f.Unlock(at); err != nil {
		t.Errorf("unlocking byte %d: %v", at, err)
	}
}

func closed(t *testing.T, f *lockfile.File) {
	t.Helper()
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// TestLock_TwoJobsOfOneProcess: a lock holds until its own File is closed, whatever else
// the process opens and closes.
func TestLock_TwoJobsOfOneProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, second := open(t, path), open(t, path)
	lock(t, first, 7, false)
	lock(t, second, 7, true)
	lock(t, second, 8, false)
	closed(t, second)
	third := open(t, path)
	lock(t, third, 7, true)
	lock(t, third, 8, false)
	closed(t, third)
	busy, end := otherBusy(t, path)
	end()
	if !busy {
		t.Error("the lock went when another File of the same file was closed")
	}
	closed(t, first)
	busy, end = otherBusy(t, path)
	if busy {
		t.Error("the lock stayed when its File was closed")
	}
	first = open(t, path)
	lock(t, first, 7, true)
	end()
	lock(t, first, 7, false)
	closed(t, first)
}

// TestLock_Shared: several Files share a byte, and one that has it alone shares it with
// none; a File's own lock is in nobody's way but others'.
func TestLock_Shared(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, second, third := open(t, path), open(t, path), open(t, path)
	share(t, first, 7, false)
	share(t, second, 7, false)
	lock(t, third, 7, true)
	lock(t, first, 7, true) // for the second
	unlock(t, second, 7)
	lock(t, first, 7, false) // in place of its shared one
	lock(t, first, 7, false)
	share(t, second, 7, true)
	share(t, first, 7, false) // and back
	share(t, second, 7, false)
	closed(t, second)
	lock(t, third, 7, true)
	lock(t, third, 8, false)
	unlock(t, third, 8)
	unlock(t, third, 9) // which it never had
	lock(t, first, 8, false)
	closed(t, first)
	lock(t, third, 8, false)
	lock(t, third, 7, false)
	closed(t, third)
}

// TestLock_SharedWithAnotherProcess: Files of one process that share a byte hold it against
// others until the last has unlocked it.
func TestLock_SharedWithAnotherProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	other := func(want bool, env ...string) {
		t.Helper()
		busy, end := otherBusy(t, path, env...)
		end()
		if busy != want {
			t.Errorf("another process (%v) finds the byte locked: %v, want %v", env, busy, want)
		}
	}
	first, second := open(t, path), open(t, path)
	share(t, first, 7, false)
	share(t, second, 7, false)
	other(true)
	other(false, "SHARED=1")
	unlock(t, first, 7)
	other(true)
	lock(t, second, 7, false)
	other(true, "SHARED=1")
	unlock(t, second, 7)
	other(false)
	busy, end := otherBusy(t, path, "SHARED=1")
	if busy {
		t.Error("the byte is locked by nobody, and busy")
	}
	lock(t, first, 7, true)
	share(t, first, 7, false)
	lock(t, first, 7, true) // and keeps what it has
	end()
	lock(t, second, 7, true)
	lock(t, first, 7, false)
	closed(t, first)
	closed(t, second)
}

// TestLock_Many locks thousands of bytes of one file at once.
func TestLock_Many(t *testing.T) {
	const bytes = 5000
	at := func(i int64) int64 { return i * 1_000_003 }
	path := filepath.Join(t.TempDir(), "lock")
	first, second := open(t, path), open(t, path)
	for i := range int64(bytes) {
		lock(t, first, at(i), false)
	}
	for i := range int64(bytes) {
		unlock(t, first, at(i))
	}
	for i := range int64(bytes) {
		lock(t, second, at(i), false)
	}
	closed(t, second)
	closed(t, first)
}

// TestLock_POSIX runs these tests on the locks of systems that have no better ones.
func TestLock_POSIX(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("NOT TESTED: these are the locks here anyway, or there are none")
	}
	out, err := exec.Command("go", "test", "-tags=posixlocks", "-count=1", "-run=TestLock_TwoJobs|TestLock_Shared|TestLock_Many|TestOpenLike", ".").CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestOpenLike: whoever may write the model may lock the file, though root made it.
func TestOpenLike(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("NOT TESTED: files have no mode here")
	}
	dir := t.TempDir()
	model := filepath.Join(dir, "model")
	testcheck.NoError(t, errors.Join(os.WriteFile(model, nil, 0o600), os.Chmod(model, 0o666)))
	path := filepath.Join(dir, "lock")
	f, err := lockfile.OpenLike(path, model)
	testcheck.NoError(t, err)
	closed(t, f)
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o666 {
		t.Errorf("the file that was made is %v, %v", info.Mode(), err)
	}
	testcheck.NoError(t, os.Chmod(path, 0o600))
	if f, err = lockfile.OpenLike(path, model); err != nil {
		t.Fatal(err)
	}
	closed(t, f)
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("the mode of a file that existed was changed to %v, %v", info.Mode(), err)
	}
	// Where a link leads, nothing is made or given away.
	victim, link := filepath.Join(dir, "victim"), filepath.Join(dir, "link")
	testcheck.NoError(t, os.Symlink(victim, link))
	if _, err := lockfile.OpenLike(link, model); err == nil {
		t.Error("a link to nothing was followed")
	}
}
