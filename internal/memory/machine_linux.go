package memory

import (
	"io/fs"
	"strconv"
	"strings"
)

// machine returns the machine's memory in bytes, 0 if unknown.
func machine(root fs.FS) int64 {
	for line := range strings.Lines(read(root, "proc/meminfo")) {
		if text, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(text), " kB"), 10, 64)
			return kib << 10
		}
	}
	return 0
}
