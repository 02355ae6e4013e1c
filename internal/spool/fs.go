package spool

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// FS is a folder as a log sees it.
type FS interface {
	Names() ([]string, error)
	// Open opens a file for reading and writing, and creates it if it is missing.
	Open(name string) (File, error)
	Remove(name string) error
	Rename(from, to string) error
	// Sync makes created, renamed and removed files survive a power cut.
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

// folder is an FS on disk.
type folder string

// Folder returns the folder at path. It creates the folder if it is missing.
func Folder(path string) (FS, error) {
	// Only for the owner: the lines may hold anything that the feed does.
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
	if err != nil {
		return nil, err
	}
	return osFile{file}, nil
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

// IsFull reports whether the disk is full or the user's quota is exceeded.
func IsFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// readJSON reads a file into v. If the file is missing, v is unchanged.
func readJSON(fs FS, name string, v any) (err error) {
	names, err := fs.Names()
	if err != nil || !slices.Contains(names, name) {
		return err
	}
	f, err := fs.Open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return err
	}
	if err := json.NewDecoder(io.NewSectionReader(f, 0, size)).Decode(v); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// newerFormat returns the error for a file in a format that this program does not know.
func newerFormat(name string, found int) error {
	return fmt.Errorf("%s was made by a newer version of weir (format %d, this one knows %d)", name, found, format)
}

// writeJSON writes a file atomically.
func writeJSON(fs FS, name string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	part := strings.TrimSuffix(name, ".json") + partExt
	err = fill(fs, part, func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	})
	if err != nil {
		return err
	}
	return errors.Join(fs.Rename(part, name), fs.Sync())
}

// fill writes and syncs a file under its temporary name.
func fill(fs FS, part string, content func(io.Writer) error) error {
	f, err := fs.Open(part)
	if err != nil {
		return err
	}
	err = f.Truncate(0)
	if err == nil {
		err = content(io.NewOffsetWriter(f, 0))
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, fs.Remove(part))
	}
	return nil
}
