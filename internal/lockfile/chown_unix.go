//go:build unix

package lockfile

import (
	"io/fs"
	"os"
	"syscall"
)

// chownLike gives a file the owner of another, if the process is root.
func chownLike(f *os.File, like fs.FileInfo) {
	if id, ok := like.Sys().(*syscall.Stat_t); ok && os.Geteuid() == 0 {
		_ = f.Chown(int(id.Uid), int(id.Gid)) // not required by this run
	}
}
