//go:build (linux && !posixlocks) || windows

package lockfile

import "os"

// File is an open file of which bytes can be locked. The locks belong to it, and not to
// the process.
type File struct{ *os.File }

func open(path string, flag int, perm os.FileMode) (*File, error) {
	f, err := os.OpenFile(path, flag, perm)
	if err != nil {
		return nil, err
	}
	return &File{f}, nil
}
