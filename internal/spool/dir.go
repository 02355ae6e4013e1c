package spool

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/weirsync/weir/internal/lockfile"
)

const lockName = "lock"

// A Dir is a folder that this process alone keeps a log in.
type Dir struct {
	FS
	lock *os.File
}

// OpenDir makes the folder at path where there is none, and takes it.
func OpenDir(path string) (*Dir, error) {
	fs, err := Folder(path)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(path, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	busy, err := lockfile.Lock(f, 0)
	if busy {
		err = fmt.Errorf("another run has the folder %s", path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &Dir{fs, f}, nil
}

// Close lets the folder go.
func (d *Dir) Close() error { return d.lock.Close() }
