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
	"strconv"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/lockfile"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// TestMain is also the other process: given a path, it locks a byte of that file, exclusively or SHARED, reports it,
// and waits for the end of its stdin.
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

// otherBusy reports whether another process finds byte 7 locked. If it is not, that process holds the lock until end
// is called.
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

// play locks and unlocks bytes, step by step, with Files of one file and another process. "a locks 7" locks a byte
// exclusively with File a, "shares" locks it shared; "busy" expects failure. "other locks" and "other shares" are
// attempts of another process on byte 7; "other keeps" shares it until "other ends". A File is opened by its first
// step.
func play(t *testing.T, steps ...string) {
	t.Helper()
	path, files, end := filepath.Join(t.TempDir(), "lock"), map[string]*lockfile.File{}, func() {}
	for n, step := range steps {
		var err error
		var busy bool
		words := append(strings.Fields(step), "", "")
		who, does, at := words[0], words[1], int64(7)
		if words[2] != "" && words[2] != "busy" {
			at, err = strconv.ParseInt(words[2], 10, 64)
		}
		f := files[who]
		if f == nil && who != "other" {
			f, err = lockfile.Open(path)
			files[who] = f
		}
		testcheck.NoError(t, err)
		switch who + " " + does {
		case "other locks", "other shares", "other keeps":
			env := "SHARED=1"
			if does == "locks" {
				env = "SHARED="
			}
			if busy, end = otherBusy(t, path, env); does != "keeps" {
				end()
			}
		case "other ends":
			end()
		case who + " locks":
			busy, err = f.Lock(at)
		case who + " shares":
			busy, err = f.LockShared(at)
		case who + " unlocks":
			err = f.Unlock(at)
		case who + " closes":
			err = f.Close()
			delete(files, who)
		default:
			t.Fatalf("no such step: %s", step)
		}
		if busy != strings.HasSuffix(step, "busy") || err != nil {
			t.Errorf("step %d, %s: busy %v, %v", n, step, busy, err)
		}
	}
	for _, f := range files {
		testcheck.NoError(t, f.Close())
	}
}

// TestLock_TwoJobsOfOneProcess: a lock holds until its own File is closed, whatever else the process opens and
// closes.
func TestLock_TwoJobsOfOneProcess(t *testing.T) {
	play(t, "a locks 7", "b locks 7 busy", "b locks 8", "b closes", "c locks 7 busy", "c locks 8", "c closes", "other locks busy",
		"a closes", "other keeps", "a locks 7 busy", "other ends", "a locks 7")
}

// TestLock_Shared: several Files can share a byte, but an exclusive lock excludes all others. A File's own lock never
// blocks it.
func TestLock_Shared(t *testing.T) {
	play(t, "a shares 7", "b shares 7", "c locks 7 busy", "a locks 7 busy", "b unlocks 7",
		"a locks 7", "a locks 7", "b shares 7 busy", // upgraded from shared
		"a shares 7", "b shares 7", "b closes", "c locks 7 busy", // and downgraded
		"c locks 8", "c unlocks 8", "c unlocks 9", // was not locked
		"a locks 8", "a closes", "c locks 8", "c locks 7")
}

// TestLock_SharedWithAnotherProcess: Files of one process that share a byte exclude other processes until the last
// File has unlocked it.
func TestLock_SharedWithAnotherProcess(t *testing.T) {
	play(t, "a shares 7", "b shares 7", "other locks busy", "other shares", "a unlocks 7", "other locks busy", "b locks 7",
		"other shares busy", "b unlocks 7", "other locks",
		"other keeps", "a locks 7 busy", "a shares 7", "a locks 7 busy", // and keeps its lock
		"other ends", "b locks 7 busy", "a locks 7")
}

// TestLock_Many locks thousands of bytes of one file.
func TestLock_Many(t *testing.T) {
	var steps []string
	for _, does := range []string{"a locks", "a unlocks", "b locks"} {
		for i := range 5000 {
			steps = append(steps, fmt.Sprint(does, " ", i*1_000_003))
		}
	}
	play(t, steps...)
}

// TestOpenLike: everybody who may write the model can lock the file, even if root created it.
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
	testcheck.NoError(t, f.Close())
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o666 {
		t.Errorf("the created file has mode %v, %v", info.Mode(), err)
	}
	testcheck.NoError(t, os.Chmod(path, 0o600))
	if f, err = lockfile.OpenLike(path, model); err != nil {
		t.Fatal(err)
	}
	testcheck.NoError(t, f.Close())
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("the mode of an existing file was changed to %v, %v", info.Mode(), err)
	}
	// Nothing is created or given away where a link points to.
	victim, link := filepath.Join(dir, "victim"), filepath.Join(dir, "link")
	testcheck.NoError(t, os.Symlink(victim, link))
	if _, err := lockfile.OpenLike(link, model); err == nil {
		t.Error("a link to nothing was followed")
	}
}
