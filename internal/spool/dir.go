package spool

import (
	"fmt"
	"path/filepath"

	"github.com/weirsync/weir/internal/lockfile"
)

const lockName = "lock"

// A Dir is a folder that this process alone keeps a log in.
type Dir struct {
	FS
	lock *lockfile.File
}

// OpenDir makes the folder at path where there is none, and takes it.
func OpenDir(path string) (*Dir, error) { return openDir(path, path) }

// openDir is OpenDir of a folder that people know by a name.
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

// Close lets the folder go.
func (d *Dir) Close() error { return d.lock.Close() }
