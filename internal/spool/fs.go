package spool

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// FS is a folder, as far as a log needs one.
type FS interface {
	Names() ([]string, error)
	// Open opens a file for reading and writing, and makes it where there is none.
	Open(name string) (File, error)
	Remove(name string) error
	Rename(from, to string) error
	// Sync makes what was made, renamed and removed outlast a power cut.
	Sync() error
}

// File is a file of an FS.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Truncate(size int64) error
	Sync() error
	Size() (int64, error)
}

// folder is an FS of the system's.
type folder string

// Folder returns the folder at path, which is made where there is none.
func Folder(path string) (FS, error) {
	// The lines may hold anything that the feed does.
	return folder(path), os.MkdirAll(path, 0o700)
}

func (f folder) Names() ([]string, error) {
	entries, err := os.ReadDir(string(f))
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, err
}

func (f folder) Open(name string) (File, error) {
	file, err := os.OpenFile(filepath.Join(string(f), name), os.O_RDWR|os.O_CREATE, 0o600)
	return osFile{file}, err
}

func (f folder) Remove(name string) error {
	if err := os.Remove(filepath.Join(string(f), name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (f folder) Rename(from, to string) error {
	return os.Rename(filepath.Join(string(f), from), filepath.Join(string(f), to))
}

type osFile struct{ *os.File }

func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
