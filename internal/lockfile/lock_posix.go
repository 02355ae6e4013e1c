//go:build unix && (!linux || posixlocks)

package lockfile

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"sync"
	"syscall"
)

// File is an open file of which bytes can be locked. POSIX locks belong to the process,
// and go when any descriptor of the file is closed: so Files of one file share one
// descriptor, and know of each other's locks.
type File struct {
	*os.File
	shared *shared
	mine   []int64 // bytes that are locked
}

type shared struct {
	file   *os.File
	id     fs.FileInfo
	users  int
	locked map[int64]bool
}

var (
	mu    sync.Mutex
	files []*shared
)

func open(path string, flag int, perm os.FileMode) (*File, error) {
	mu.Lock()
	defer mu.Unlock()
	if id, err := os.Stat(path); err == nil {
		if i := slices.IndexFunc(files, func(s *shared) bool { return os.SameFile(s.id, id) }); i >= 0 {
			if flag&os.O_EXCL != 0 {
				return nil, fs.ErrExist
			}
			files[i].users++
			return &File{File: files[i].file, shared: files[i]}, nil
		}
	}
	f, err := os.OpenFile(path, flag, perm)
	if err != nil {
		return nil, err
	}
	id, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	s := &shared{file: f, id: id, users: 1, locked: map[int64]bool{}}
	files = append(files, s)
	return &File{File: f, shared: s}, nil
}

// Lock locks one byte of the file, which need not exist, until the File is closed. busy
// reports that another File has it, of this process or of another.
func (f *File) Lock(at int64) (busy bool, err error) {
	mu.Lock()
	defer mu.Unlock()
	if f.shared.locked[at] {
		return true, nil
	}
	err = f.set(syscall.F_WRLCK, at)
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) {
		return true, nil
	} else if err == nil {
		f.shared.locked[at], f.mine = true, append(f.mine, at)
	}
	return false, err
}

func (f *File) set(kind int16, at int64) error {
	return syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: kind, Start: at, Len: 1})
}

// Close releases the locks.
func (f *File) Close() (err error) {
	mu.Lock()
	defer mu.Unlock()
	for _, at := range f.mine {
		err = errors.Join(err, f.set(syscall.F_UNLCK, at))
		delete(f.shared.locked, at)
	}
	f.mine = nil
	if f.shared.users--; f.shared.users == 0 {
		err = errors.Join(err, f.File.Close())
		files = slices.DeleteFunc(files, func(s *shared) bool { return s == f.shared })
	}
	return err
}
