// Package lockfile excludes other runs by locks of the operating system, which are
// released when the process ends, however it ends.
package lockfile

import (
	"errors"
	"io/fs"
	"os"
)

// Open opens the file at path for reading and writing. A missing file is made, for its
// owner alone.
func Open(path string) (*File, error) { return open(path, os.O_RDWR|os.O_CREATE, 0o600) }

// OpenLike is Open for a file that all who may write the file at model have to open: a
// file that it makes has the mode of that one and, where root makes it, the owner.
func OpenLike(path, model string) (*File, error) {
	f, err := open(path, os.O_RDWR, 0)
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	like, err := os.Stat(model)
	if err != nil {
		return nil, err
	}
	// O_EXCL follows no link: root must not give away the file that one leads to.
	f, err = open(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, like.Mode().Perm())
	if errors.Is(err, fs.ErrExist) { // another run was faster
		return open(path, os.O_RDWR, 0)
	}
	if err == nil {
		_ = f.Chmod(like.Mode().Perm()) // whatever the umask; not every file system can
		chownLike(f.File, like)
	}
	return f, err
}
