package spool

import (
	"errors"
	"io"
	"path/filepath"
	"time"

	"github.com/klauspost/compress/zstd"
)

// Captures are a folder of compressed segments that only this process adds to. A capture's name is the time of its
// first line. If the clock was set back, it is just after the newest name in the folder.
type Captures struct {
	io.Closer           // its lock
	fs, own   FS        // own is a hidden folder inside, with the lock and unfinished files; it can hold a log
	last      time.Time // in the newest name
}

const (
	ownDir      = ".weir" // hidden, so no pattern of files matches it
	captureName = timeFormat + dataExt + ".zst"
)

// OpenCaptures locks the folder at path. It creates the folder if it is missing.
func OpenCaptures(path string) (*Captures, error) {
	own := filepath.Join(path, ownDir)
	locked, err := lock(own, path)
	if err != nil {
		return nil, err
	}
	c := &Captures{Closer: locked, fs: Folder(path), own: Folder(own)}
	names, err := c.fs.Names()
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
	err := writeFile(c.own, filepath.Join("..", at.Format(captureName)), func(w io.Writer) error {
		z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
		if err != nil {
			return err
		}
		_, err = content.WriteTo(z)
		return errors.Join(err, z.Close())
	})
	if err != nil {
		return err
	}
	c.last = at
	return c.fs.Sync()
}
