//go:build !posixlocks

package lockfile

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Lock locks one byte of the file, which need not exist, until the File is closed. busy
// reports that another File has it, of this process or of another.
func (f *File) Lock(at int64) (busy bool, err error) {
	err = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Start: at, Len: 1})
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return true, nil
	}
	return false, err
}
