// Package memory determines how much memory this process may use.
package memory

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/weirsync/weir/internal/quantity"
)

// A Limit is how much memory a process may use.
type Limit struct {
	Bytes int64  // 0 if unknown
	From  string // where the limit comes from, for messages: "the machine's memory"
}

// Available returns the lowest limit of this process: of its control groups, GOMEMLIMIT, and the machine's memory.
func Available() Limit {
	l := available(os.DirFS("/"))
	l.lower(debug.SetMemoryLimit(-1), "GOMEMLIMIT")
	return l
}

// available is the part of [Available] that reads files; tests pass their own root.
func available(root fs.FS) (l Limit) {
	l.lower(machine(root), "the machine's memory")
	for _, file := range groupFiles(root) {
		l.lower(number(read(root, file)), "the control group's "+path.Base(file))
	}
	return l
}

func (l *Limit) lower(bytes int64, from string) {
	if bytes > 0 && bytes < math.MaxInt64 && (l.Bytes == 0 || bytes < l.Bytes) {
		*l = Limit{bytes, from}
	}
}

// groupFiles returns the files that may hold limits of this process's control groups and their parents. A container
// may see the path of a group that exists only on its host, and its own limits at the top.
func groupFiles(root fs.FS) (files []string) {
	for line := range strings.Lines(read(root, "proc/self/cgroup")) {
		controllers, group, _ := strings.Cut(strings.TrimSpace(line[strings.Index(line, ":")+1:]), ":")
		folder, names := "sys/fs/cgroup", []string{"memory.max", "memory.high"}
		switch {
		case controllers == "": // version 2
		case slices.Contains(strings.Split(controllers, ","), "memory"):
			folder, names = "sys/fs/cgroup/memory", []string{"memory.limit_in_bytes"}
		default:
			continue
		}
		for ; ; group = path.Dir(group) {
			for _, name := range names {
				files = append(files, path.Join(folder, group, name))
			}
			if group == "/" || group == "." || group == "" {
				break
			}
		}
	}
	return files
}

func read(root fs.FS, file string) string {
	b, _ := fs.ReadFile(root, file) // a missing file has no limit
	return strings.TrimSpace(string(b))
}

// number returns 0 if text is not a number, such as max. Version 1 control groups without a limit have a number near
// the maximum.
func number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n > math.MaxInt64-1<<20 {
		return 0
	}
	return n
}

// A Buffer is how much memory a run uses for its batches, and why.
type Buffer struct {
	Bytes int64  // a multiple of 1 MiB
	Why   string // for messages: "a quarter of 8.0 GiB, the machine's memory"
}

// The bounds of [Limit.Buffer], in bytes.
const minBuffer, maxBuffer = 64 << 20, 2 << 30

// Buffer returns a quarter of the limit, at least 64 MiB and at most 2 GiB.
func (l Limit) Buffer() Buffer {
	why := fmt.Sprintf("a quarter of %s, %s", quantity.Bytes(l.Bytes), l.From)
	switch quarter := l.Bytes / 4 &^ (1<<20 - 1); {
	case l.Bytes == 0:
		return Buffer{minBuffer, "64 MiB at least; the system does not say how much memory there is"}
	case quarter < minBuffer:
		return Buffer{minBuffer, "64 MiB at least; " + why + ", is less"}
	case quarter > maxBuffer:
		return Buffer{maxBuffer, "2 GiB at most; " + why + ", is more"}
	default:
		return Buffer{quarter, why}
	}
}
