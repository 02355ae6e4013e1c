package spool

import (
	"fmt"
	"path/filepath"

	"github.com/weirsync/weir/internal/lockfile"
)

const lockName = "lock"

// A Dir is a locked folder in which only this process keeps a log.
type Dir struct {
	FS
	lock *lockfile.File
}

// OpenDir locks the folder at path. It creates the folder if it is missing.
func OpenDir(path string) (*Dir, error) { return openDir(path, path) }

// openDir is OpenDir with a name to use in errors.
func openDir(path, name string) (*Dir, error) {
	fs, err := Folder(path)
	if err != nil {
		return nil, err
	}
	f, err := lockfile.Open(filepath.Join(path, lockName))
	if err != nil {
		return nil, err
	}
	busy, err := f.Lock(0)
	if busy {
		err = fmt.Errorf("another run uses the folder %s: name another one", name)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &Dir{fs, f}, nil
}

// Close unlocks the folder.
func (d *Dir) Close() error { return d.lock.Close() }
