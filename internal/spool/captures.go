package spool

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/klauspost/compress/zstd"
)

// captures is a folder of compressed segments that only this process adds to. A capture's name is the time of its first
// line. If the clock was set back, it is just after the newest name in the folder.
type captures string

const (
	ownDir      = ".weir" // has the lock and the unfinished file, and can hold a log. No pattern of files matches it
	captureName = timeFormat + dataExt + ".zst"
)

// add compresses a segment's content into the next capture. began is when the segment was started.
func (c captures) add(began time.Time, content io.WriterTo) error {
	names, err := Folder(c).Names()
	if err != nil {
		return err
	}
	at := began.UTC().Truncate(time.Millisecond) // as in the name
	for _, name := range names {
		if other, err := time.Parse(captureName, name); err == nil && !at.After(other) {
			at = other.Add(time.Millisecond)
		}
	}
	part := filepath.Join(string(c), ownDir, "new.part")
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
		err = os.Rename(part, filepath.Join(string(c), at.Format(captureName)))
	}
	if err != nil {
		return errors.Join(err, os.Remove(part))
	}
	return Folder(c).Sync()
}
