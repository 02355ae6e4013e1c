package spool

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// FS is a folder as a log sees it.
type FS interface {
	Names() ([]string, error)
	// Open opens a file for reading and writing, and creates it if it is missing.
	Open(name string) (File, error)
	Remove(name string) error
	// Sync makes created and removed files survive a power cut.
	Sync() error
}

// File is a file of an FS.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Truncate(size int64) error
	Sync() error
	Stat() (fs.FileInfo, error)
}

// Folder is an FS on disk.
type Folder string

// Names implements [FS].
func (f Folder) Names() ([]string, error) {
	entries, err := os.ReadDir(string(f))
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, err
}

// Open implements [FS].
func (f Folder) Open(name string) (File, error) {
	file, err := os.OpenFile(filepath.Join(string(f), name), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	return file, nil
}

// Remove implements [FS].
func (f Folder) Remove(name string) error {
	if err := os.Remove(filepath.Join(string(f), name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Sync implements [FS].
func (f Folder) Sync() error {
	if runtime.GOOS == "windows" { // NTFS journals its folders
		return nil
	}
	d, err := os.Open(string(f))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// IsFull reports whether the disk is full or the user's quota is exceeded.
func IsFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || runtime.GOOS == "windows" && errors.Is(err, syscall.Errno(112)) // ERROR_DISK_FULL
}
