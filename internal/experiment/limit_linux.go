package experiment

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A memoryLimit is a control group of this process and those that it starts: their files have so
// much of the system's memory, and what else they need comes on top.
type memoryLimit struct {
	dir, before string // the group, and the one that this process was in
	inside      bool   // this process is in dir
	enabled     bool   // groups in before have limits of their memory only since this one was made there
	names       groupFiles
	limit       *os.File // of the group, open since this process is about to enter it
	stop        chan struct{}
	follower    sync.WaitGroup
}

// groupFiles are the names of a group's files, which differ by the version of control groups. Over
// its limit the system takes memory from the group's files. What else the processes need may grow faster
// than the limit follows it, and no process is to be killed for that: memory.high of version 2 kills
// none, and in version 1 the limit is lifted when the files have shrunk.
type groupFiles struct {
	limit, usage, cache string
	lifted              bool
}

const groupPrefix = "weir-bench-"

// limitMemory begins a limit. The groups that this process may be put into are, from its own
// upwards, the first one that takes it.
func limitMemory(bytes int64) (*memoryLimit, error) {
	root, before, names, err := memoryGroup()
	if err != nil {
		return nil, err
	}
	m := &memoryLimit{before: before, names: names, stop: make(chan struct{})}
	for parent := m.before; ; parent = filepath.Dir(parent) {
		removeGroups(parent)
		m.dir = filepath.Join(parent, groupPrefix+strconv.Itoa(os.Getpid()))
		if err = m.enter(bytes); err == nil {
			break
		}
		err = errors.Join(err, m.leave())
		if parent == root {
			return nil, fmt.Errorf("limiting the memory by a control group: %w", err)
		}
	}
	m.follower.Go(func() {
		for {
			select {
			case <-m.stop:
				return
			case <-time.After(20 * time.Millisecond):
				for more := true; more; {
					more, _ = m.set(bytes) // the next one may do
				}
			}
		}
	})
	return m, nil
}

// memoryGroup returns where the groups of the memory are, and the one of this process.
func memoryGroup() (root, own string, names groupFiles, err error) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", "", names, err
	}
	root, own, names = findMemoryGroup(string(text))
	if root == "" {
		return "", "", names, errors.New("this system has no control groups for memory")
	}
	own, err = visibleGroup(root, own)
	return root, own, names, err
}

// findMemoryGroup finds the group in what the system says of a process. Where both versions are mounted, version 1 has
// the memory if it has a group for it.
func findMemoryGroup(text string) (root, own string, names groupFiles) {
	for line := range strings.Lines(text) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(part) == 3 && part[1] == "memory" {
			root, own, names = "/sys/fs/cgroup/memory", part[2], groupFiles{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_cache", true}
			break
		}
		if len(part) == 3 && part[0] == "0" {
			root, own, names = "/sys/fs/cgroup", part[2], groupFiles{"memory.high", "memory.current", "file", false}
		}
	}
	return root, own, names
}

// visibleGroup returns the folder of this process's group. In a container, the path of the group may be that outside of
// it, where the container has the group itself as the root.
func visibleGroup(root, own string) (string, error) {
	for _, dir := range []string{filepath.Join(root, own), root} {
		processes, err := os.ReadFile(filepath.Join(dir, processesFile))
		if err == nil && slices.Contains(strings.Fields(string(processes)), strconv.Itoa(os.Getpid())) {
			return dir, nil
		}
	}
	return "", fmt.Errorf("the control group of this process, %s, is not visible in %s", own, root)
}

// removeGroups removes those of runs that were killed.
func removeGroups(parent string) {
	groups, _ := os.ReadDir(parent)
	for _, g := range groups {
		pid, found := strings.CutPrefix(g.Name(), groupPrefix)
		if !found {
			continue
		}
		if _, err := os.Stat(filepath.Join("/proc", pid)); errors.Is(err, os.ErrNotExist) {
			_ = os.Remove(filepath.Join(parent, g.Name()))
		}
	}
}

// The files of a group that has processes, and groups with controllers.
const (
	processesFile   = "cgroup.procs"
	controllersFile = "cgroup.subtree_control" // of version 2
)

// enter makes the group, and puts this process into it.
func (m *memoryLimit) enter(bytes int64) error {
	if err := os.Mkdir(m.dir, 0o755); err != nil {
		return err
	}
	if filepath.Dir(m.dir) == m.before && !m.names.lifted {
		if err := m.enable(); err != nil {
			return err
		}
	}
	var err error
	if m.limit, err = os.OpenFile(filepath.Join(m.dir, m.names.limit), os.O_WRONLY, 0); err != nil {
		return err
	}
	if _, err := m.set(bytes); err != nil {
		return err
	}
	_ = os.WriteFile(filepath.Join(m.dir, "memory.swap.max"), []byte("0"), 0) // not every kernel has it
	return m.join()
}

// enable lets groups in this process's own have limits. In version 2 a group with processes, but for the root, has none
// such in it: where this is the only process, it goes first. So its group stays: systemd removes a scope that the last
// process leaves.
func (m *memoryLimit) enable() error {
	path := filepath.Join(m.before, controllersFile)
	controllers, err := os.ReadFile(path)
	if err != nil || slices.Contains(strings.Fields(string(controllers)), "memory") {
		return err
	}
	if err := m.join(); err != nil {
		return err
	}
	err = os.WriteFile(path, []byte("+memory"), 0)
	m.enabled = err == nil
	return err
}

func (m *memoryLimit) join() error {
	err := join(m.dir)
	m.inside = m.inside || err == nil
	return err
}

// leave puts this process back to where it was, and removes the group.
func (m *memoryLimit) leave() (err error) {
	if m.enabled { // or the group takes no process
		err = os.WriteFile(filepath.Join(m.before, controllersFile), []byte("-memory"), 0)
		m.enabled = false
	}
	if m.inside {
		err = errors.Join(err, join(m.before))
		m.inside = false
	}
	if m.limit != nil {
		err = errors.Join(err, m.limit.Close())
		m.limit = nil
	}
	return errors.Join(err, m.remove())
}

// join puts this process into a group.
func join(dir string) error {
	return os.WriteFile(filepath.Join(dir, processesFile), []byte(strconv.Itoa(os.Getpid())), 0)
}

// liftedStep is how much memory the system takes at once in version 1. The limit is in force from when it has done so until
// the limit is lifted, and whoever needs more than files have then is killed: that has to be short.
const liftedStep = 4 << 20 // bytes

// set has the limit follow what the processes have beside their files, and reports whether files still have too much.
func (m *memoryLimit) set(bytes int64) (more bool, err error) {
	files, err := m.files()
	if err != nil {
		return false, err
	}
	// Read after the files and just before the limit is written: what the processes get in between, files lose too.
	text, err := os.ReadFile(filepath.Join(m.dir, m.names.usage))
	if err != nil {
		return false, err
	}
	usage, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return false, err
	}
	if !m.names.lifted {
		return false, m.write(strconv.AppendInt(nil, max(usage-files, 0)+bytes, 10))
	}
	lifted, over := []byte("-1"), files-bytes
	if over > 0 {
		step := strconv.AppendInt(nil, usage-min(over, liftedStep), 10)
		more = m.write(step) == nil && over > liftedStep // it fails where files are not yet on the disk
	}
	return more, m.write(lifted)
}

// files is how much memory the group's files have.
func (m *memoryLimit) files() (bytes int64, err error) {
	stat, err := os.ReadFile(filepath.Join(m.dir, "memory.stat"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(stat)) {
		if cache, found := strings.CutPrefix(line, m.names.cache+" "); found {
			return strconv.ParseInt(strings.TrimSpace(cache), 10, 64)
		}
	}
	return 0, fmt.Errorf("%s/memory.stat has no %s", m.dir, m.names.cache)
}

func (m *memoryLimit) write(limit []byte) error {
	_, err := m.limit.WriteAt(limit, 0)
	return err
}

// end ends the limit, when the processes that were started under it have ended.
func (m *memoryLimit) end() error {
	close(m.stop)
	m.follower.Wait()
	return m.leave()
}

// remove removes the group, which is busy until the last of its processes is gone.
func (m *memoryLimit) remove() error {
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		err := os.Remove(m.dir)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if !errors.Is(err, syscall.EBUSY) || time.Now().After(end) {
			return err
		}
	}
}
