package lockfile

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

// File is an open file whose bytes can be locked. The locks belong to it, not to the process. Only one goroutine may
// use it at a time.
type File struct {
	*os.File
	locks map[int64]uint32 // flags of its locks: Windows treats two locks on a byte as separate
}

func open(path string, flag int, perm os.FileMode) (*File, error) {
	f, err := os.OpenFile(path, flag, perm)
	if err != nil {
		return nil, err
	}
	return &File{f, map[int64]uint32{}}, nil
}

// Lock locks one byte of the file, which need not exist, until it is unlocked or the File is closed. If the File has
// a shared lock on it, it is upgraded. busy reports that another File, in this process or another, holds a lock; then
// nothing changes.
func (f *File) Lock(at int64) (busy bool, err error) {
	return f.set(windows.LOCKFILE_EXCLUSIVE_LOCK, at)
}

// LockShared is like Lock, for a lock that several Files can hold at once.
func (f *File) LockShared(at int64) (busy bool, err error) { return f.set(0, at) }

// set replaces the File's lock on the byte. Windows cannot change a lock, so the byte is unlocked for a moment.
func (f *File) set(flags uint32, at int64) (busy bool, err error) {
	was, has := f.locks[at]
	if has && was == flags {
		return false, nil
	}
	if err := f.Unlock(at); err != nil {
		return false, err
	}
	if busy, err = f.lock(flags, at); !has || !busy && err == nil {
		return busy, err
	}
	lost, again := f.lock(was, at)
	if lost {
		again = errors.New("a lock was lost to another program while it was changed")
	}
	return busy, errors.Join(err, again)
}

func (f *File) lock(flags uint32, at int64) (busy bool, err error) {
	err = windows.LockFileEx(windows.Handle(f.Fd()), flags|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, overlapped(at))
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return true, nil
	}
	if err == nil {
		f.locks[at] = flags
	}
	return false, err
}

// Unlock releases the lock on a byte, if the File holds one.
func (f *File) Unlock(at int64) error {
	if _, has := f.locks[at]; !has {
		return nil
	}
	delete(f.locks, at)
	return windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, overlapped(at))
}

func overlapped(at int64) *windows.Overlapped {
	return &windows.Overlapped{Offset: uint32(at), OffsetHigh: uint32(at >> 32)}
}

// chownLike does nothing: a new file inherits the folder's permissions.
func chownLike(*os.File, fs.FileInfo) {}
