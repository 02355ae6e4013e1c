//go:build unix

package lockfile

import (
	"errors"
	"os"
	"syscall"
)

func lock(f *os.File, at int64) (busy bool, err error) {
	err = syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: syscall.F_WRLCK, Start: at, Len: 1})
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) {
		return true, nil
	}
	return false, err
}
