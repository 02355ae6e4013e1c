package spool

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/klauspost/compress/zstd"
)

// Captures are a folder of compressed segments that only this process adds to. A capture's name is the time of its
// first line. If the clock was set back, it is just after the newest name in the folder.
type Captures struct {
	io.Closer // its lock
	path, own string
	last      time.Time // in the newest name
}

const (
	ownDir      = ".weir" // has the lock and the unfinished file, and can hold a log. No pattern of files matches it
	captureName = timeFormat + dataExt + ".zst"
)

// OpenCaptures locks the folder at path. It creates the folder if it is missing.
func OpenCaptures(path string) (*Captures, error) {
	own := filepath.Join(path, ownDir)
	locked, err := lock(own, path)
	if err != nil {
		return nil, err
	}
	c := &Captures{Closer: locked, path: path, own: own}
	names, err := Folder(path).Names()
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	for _, name := range names {
		if at, err := time.Parse(captureName, name); err == nil && at.After(c.last) {
			c.last = at
		}
	}
	return c, nil
}

// Add compresses a segment's content into the next capture. began is when the segment was started.
func (c *Captures) Add(began time.Time, content io.WriterTo) error {
	at := began.UTC().Truncate(time.Millisecond) // as in the name
	if !at.After(c.last) {
		at = c.last.Add(time.Millisecond)
	}
	part := filepath.Join(c.own, "new.part")
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	z, err := zstd.NewWriter(f, zstd.WithEncoderConcurrency(1))
	if err == nil {
		_, err = content.WriteTo(z)
		err = errors.Join(err, z.Close(), f.Sync())
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(part, filepath.Join(c.path, at.Format(captureName)))
	}
	if err != nil {
		return errors.Join(err, os.Remove(part))
	}
	c.last = at
	return Folder(c.path).Sync()
}
