package experiment

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// TestLimit_HoldsFiles but not the process, and leaves no group.
func TestLimit_HoldsFiles(t *testing.T) {
	const limit, written = 16 << 20, 96 << 20
	before, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	m, err := limitMemory(limit)
	if err != nil {
		t.Skipf("NOT TESTED: %v", err)
	}
	ended := false
	defer func() {
		if !ended {
			_ = m.end()
		}
	}()
	f, err := os.Create(filepath.Join(t.TempDir(), "large"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	piece := make([]byte, 1<<20)
	for range written / len(piece) { // from memory that is not held
		if _, err := f.Write(piece); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	// Files are read while the limit is in force, as experiments do: one moment may have less than it.
	var has int64
	held := false
	for i, end := 0, time.Now().Add(20*time.Second); !held && time.Now().Before(end); i++ {
		if _, err := f.ReadAt(piece, int64(i*len(piece)%written)); err != nil {
			t.Fatal(err)
		}
		if has, err = m.files(); err != nil {
			t.Fatal(err)
		}
		held = i*len(piece) > written && has > limit/2 && has <= limit+1<<20
	}
	if !held {
		t.Errorf("files have %d bytes of the memory", has)
	}
	ended = true
	if err := m.end(); err != nil {
		t.Fatal(err)
	}
	if after, err := os.ReadFile("/proc/self/cgroup"); err != nil || string(after) != string(before) {
		t.Errorf("it was in\n%s and is in\n%s%v", before, after, err)
	}
	if _, err := os.Stat(m.dir); !os.IsNotExist(err) {
		t.Errorf("the group: %v", err)
	}
}

// TestLimit_FindsTheGroup: the path that the system tells may be one of outside of the container.
func TestLimit_FindsTheGroup(t *testing.T) {
	root, self := t.TempDir(), strconv.Itoa(os.Getpid())
	group := func(path, processes string) string {
		t.Helper()
		dir := filepath.Join(root, path)
		err := os.MkdirAll(dir, 0o755)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, processesFile), []byte(processes), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		return dir
	}
	f := func(own, want string) {
		t.Helper()
		if dir, err := visibleGroup(root, own); dir != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v, want %q", own, dir, err, want)
		}
	}
	all, mine := group("", "1\n"), group("user/weir", "17\n"+self+"\n")
	group("other", "17\n")
	f("/user/weir", mine)
	f("/../..", "")
	f("/other", "")
	group("", "1\n"+self+"\n")
	f("/docker/0123", all)
	f("/../..", all)
}

func TestLimit_OfBothVersions(t *testing.T) {
	f := func(text, root, own, limit string) {
		t.Helper()
		if r, o, names := findMemoryGroup(text); r != root || o != own || names.limit != limit {
			t.Errorf("%q: %s, %s, %+v", text, r, o, names)
		}
	}
	f("0::/user.slice/a.scope\n", "/sys/fs/cgroup", "/user.slice/a.scope", "memory.high")
	f("9:name=systemd:/x\n4:memory:/docker/1\n1:cpu,cpuacct:/\n0::/y\n", "/sys/fs/cgroup/memory", "/docker/1", "memory.limit_in_bytes")
	f("0::/y\n4:memory:/\n", "/sys/fs/cgroup/memory", "/", "memory.limit_in_bytes")
	f("1:cpu:/\n", "", "", "")
}

// TestLimit_FollowsTheProcesses: in version 2 the limit is that of files, and what processes need beside them.
func TestLimit_FollowsTheProcesses(t *testing.T) {
	m := &memoryLimit{dir: t.TempDir()}
	_, _, m.names = findMemoryGroup("0::/")
	file := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(m.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f := func(current, files, want string) {
		t.Helper()
		file("memory.current", current+"\n")
		file("memory.stat", "anon 17\nfile "+files+"\nfile_mapped 5\n")
		file(m.names.limit, "")
		more, err := m.set(1000)
		if got, _ := os.ReadFile(m.limit.Name()); err != nil || more || string(got) != want {
			t.Errorf("files have %s of %s: the limit is %s, want %s (%v)", files, current, got, want, err)
		}
	}
	file(m.names.limit, "max\n")
	var err error
	if m.limit, err = os.OpenFile(filepath.Join(m.dir, m.names.limit), os.O_WRONLY, 0); err != nil {
		t.Fatal(err)
	}
	defer m.limit.Close()
	f("5000", "4000", "2000")
	f("300", "200", "1100")
	f("200", "300", "1000") // they are not counted at one moment
}
