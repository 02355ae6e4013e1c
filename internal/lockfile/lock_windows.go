package lockfile

import (
	"errors"

	"golang.org/x/sys/windows"
)

// Lock locks one byte of the file, which need not exist, until the File is closed. busy
// reports that another File has it, of this process or of another.
func (f *File) Lock(at int64) (busy bool, err error) {
	where := &windows.Overlapped{Offset: uint32(at), OffsetHigh: uint32(at >> 32)}
	err = windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, where)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return true, nil
	}
	return false, err
}
