package sqlite

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"

	"github.com/weirsync/weir/internal/sink"
)

// lockByte locks one byte of a file for this process.
func lockByte(f *os.File, at int64) error {
	where := &windows.Overlapped{Offset: uint32(at), OffsetHigh: uint32(at >> 32)}
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, where)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return sink.ErrBusy
	}
	return err
}
