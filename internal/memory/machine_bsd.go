//go:build !linux && !windows

package memory

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

// machine returns the machine's memory in bytes, 0 if unknown.
func machine(fs.FS) int64 {
	for _, name := range []string{"hw.memsize", "hw.physmem"} { // macOS, FreeBSD
		if n, err := unix.SysctlUint64(name); err == nil {
			return int64(n)
		}
	}
	return 0
}
