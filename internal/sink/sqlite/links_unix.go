//go:build unix

package sqlite

import (
	"os"
	"syscall"
)

// links returns the number of a file's names (hard links).
func links(fi os.FileInfo) uint64 {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return 1
	}
	return uint64(st.Nlink) //nolint:unconvert // its type depends on the system
}
