//go:build unix

package ladder

import (
	"io/fs"
	"os"
	"syscall"
)

// ours reports whether a folder is owned by this user.
func ours(folder fs.FileInfo) bool {
	owner, ok := folder.Sys().(*syscall.Stat_t)
	return ok && int(owner.Uid) == os.Geteuid()
}
