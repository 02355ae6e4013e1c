//go:build unix

package sqlite

import (
	"errors"
	"os"
	"syscall"

	"github.com/weirsync/weir/internal/sink"
)

// lockByte locks one byte of a file for this process.
func lockByte(f *os.File, at int64) error {
	err := syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: syscall.F_WRLCK, Start: at, Len: 1})
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) {
		return sink.ErrBusy
	}
	return err
}
