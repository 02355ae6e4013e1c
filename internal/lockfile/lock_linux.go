//go:build !posixlocks

package lockfile

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// File is an open file whose bytes can be locked. The locks belong to it, not to the process. Only one goroutine may
// use it at a time.
type File struct{ *os.File }

func open(path string, flag int, perm os.FileMode) (*File, error) {
	f, err := os.OpenFile(path, flag, perm)
	if err != nil {
		return nil, err
	}
	return &File{f}, nil
}

// Lock locks one byte of the file, which need not exist, until it is unlocked or the File is closed. If the File has
// a shared lock on it, it is upgraded. busy reports that another File, in this process or another, holds a lock; then
// nothing changes.
func (f *File) Lock(at int64) (busy bool, err error) { return f.set(unix.F_WRLCK, at) }

// LockShared is like Lock, for a lock that several Files can hold at once.
func (f *File) LockShared(at int64) (busy bool, err error) { return f.set(unix.F_RDLCK, at) }

// Unlock releases the lock on a byte, if the File holds one.
func (f *File) Unlock(at int64) error {
	_, err := f.set(unix.F_UNLCK, at)
	return err
}

func (f *File) set(kind int16, at int64) (busy bool, err error) {
	err = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: kind, Start: at, Len: 1})
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return true, nil
	}
	return false, err
}
