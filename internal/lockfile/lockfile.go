// Package lockfile excludes other runs with locks of the operating system, which are released when the process ends
// for any reason.
package lockfile

import (
	"errors"
	"io/fs"
	"os"
)

// Open opens the file at path for reading and writing. A missing file is created, accessible only to its owner.
func Open(path string) (*File, error) { return open(path, os.O_RDWR|os.O_CREATE, 0o600) }

// OpenLike is Open for a file that everybody who may write the file at model must be able to open: a created file
// gets the mode of model and, if root creates it, its owner.
func OpenLike(path, model string) (*File, error) {
	f, err := open(path, os.O_RDWR, 0)
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	like, err := os.Stat(model)
	if err != nil {
		return nil, err
	}
	// O_EXCL follows no link: root must not give away the file that a link points to.
	f, err = open(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, like.Mode().Perm())
	if errors.Is(err, fs.ErrExist) { // another run created it first
		return open(path, os.O_RDWR, 0)
	}
	if err == nil {
		_ = f.Chmod(like.Mode().Perm()) // independent of the umask; not all file systems support it
		chownLike(f.File, like)
	}
	return f, err
}
