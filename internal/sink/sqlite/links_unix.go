//go:build unix

package sqlite

import (
	"os"
	"syscall"
)

// links is how many names a file has.
func links(fi os.FileInfo) uint64 {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return 1
	}
	return uint64(st.Nlink) //nolint:unconvert // its type depends on the system
}
