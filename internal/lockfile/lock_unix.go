//go:build unix

package lockfile

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"sync"
	"syscall"
)

// File is an open file whose bytes can be locked. Only one goroutine may use it at a time.
//
// POSIX locks belong to the process, and are released when any descriptor of the file is closed. So all Files of one
// file share a descriptor, and know each other's locks.
type File struct {
	*os.File
	shared *shared
	locks  map[int64]bool // locked bytes; the value is true for an exclusive lock
}

type shared struct {
	file  *os.File
	id    fs.FileInfo
	users []*File
}

var (
	mu    sync.Mutex // guards files and everything in them
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
			return files[i].use(), nil
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
	s := &shared{file: f, id: id}
	files = append(files, s)
	return s.use(), nil
}

func (s *shared) use() *File {
	f := &File{File: s.file, shared: s, locks: map[int64]bool{}}
	s.users = append(s.users, f)
	return f
}

// Lock locks one byte of the file, which need not exist, until it is unlocked or the File is closed. If the File has
// a shared lock on it, it is upgraded. busy reports that another File, in this process or another, holds a lock; then
// nothing changes.
func (f *File) Lock(at int64) (busy bool, err error) { return f.lock(at, true) }

// LockShared is like Lock, for a lock that several Files can hold at once.
func (f *File) LockShared(at int64) (busy bool, err error) { return f.lock(at, false) }

func (f *File) lock(at int64, exclusive bool) (busy bool, err error) {
	mu.Lock()
	defer mu.Unlock()
	if otherLocks, theirs := f.otherLocks(at); otherLocks && (exclusive || theirs) {
		return true, nil
	}
	kind := int16(syscall.F_RDLCK)
	if exclusive {
		kind = syscall.F_WRLCK
	}
	err = f.set(kind, at)
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) {
		return true, nil
	} else if err == nil {
		f.locks[at] = exclusive
	}
	return false, err
}

// otherLocks reports whether other Files of the process hold a lock on a byte, and whether one of those is exclusive.
func (f *File) otherLocks(at int64) (some, exclusive bool) {
	for _, o := range f.shared.users {
		if a, ok := o.locks[at]; ok && o != f {
			some, exclusive = true, a
		}
	}
	return some, exclusive
}

// Unlock releases the lock on a byte, if the File holds one.
func (f *File) Unlock(at int64) error {
	mu.Lock()
	defer mu.Unlock()
	return f.unlock(at)
}

// unlock keeps the process's lock if other Files still need it.
func (f *File) unlock(at int64) error {
	if _, has := f.locks[at]; !has {
		return nil
	}
	delete(f.locks, at)
	if otherLocks, _ := f.otherLocks(at); otherLocks {
		return nil
	}
	return f.set(syscall.F_UNLCK, at)
}

func (f *File) set(kind int16, at int64) error {
	return syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: kind, Start: at, Len: 1})
}

// Close releases the locks.
func (f *File) Close() (err error) {
	mu.Lock()
	defer mu.Unlock()
	for at := range f.locks {
		err = errors.Join(err, f.unlock(at))
	}
	s := f.shared
	if s.users = slices.DeleteFunc(s.users, func(o *File) bool { return o == f }); len(s.users) == 0 {
		err = errors.Join(err, f.File.Close())
		files = slices.DeleteFunc(files, func(o *shared) bool { return o == s })
	}
	return err
}

// chownLike gives a file the owner of another, if the process is root.
func chownLike(f *os.File, like fs.FileInfo) {
	if id, ok := like.Sys().(*syscall.Stat_t); ok && os.Geteuid() == 0 {
		_ = f.Chown(int(id.Uid), int(id.Gid)) // not required by this run
	}
}
