package spool

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/klauspost/compress/zstd"
)

// Captures are a folder of compressed segments that only this process adds to. A capture's name begins with a number
// that is higher than any used before, even if the clock was set back or captures were moved away.
type Captures struct {
	io.Closer    // its lock
	fs, own   FS // own is a hidden folder inside, with the lock and unfinished files; it can hold a log
	keep      time.Duration
	last      int64 // the last number used
}

const (
	ownDir     = ".weir" // hidden, so no pattern of files matches it
	stateName  = "captures.json"
	captureExt = dataExt + ".zst"
)

// captureState is the content of the state file.
type captureState struct {
	Format int   `json:"format"`
	Last   int64 `json:"last"` // the last number used
}

var captureName = regexp.MustCompile(`^(\d{12})-(\d{8}T\d{6}\.\d{3}Z)` + regexp.QuoteMeta(captureExt) + `$`)

// OpenCaptures locks the folder at path. It creates the folder if it is missing. Captures older than keep are removed;
// 0: never.
func OpenCaptures(path string, keep time.Duration) (*Captures, error) {
	own := filepath.Join(path, ownDir)
	locked, err := lock(own, path)
	if err != nil {
		return nil, err
	}
	c := &Captures{locked, Folder(path), Folder(own), keep, 0}
	var state captureState
	err = readJSON(c.own, stateName, &state, &state.Format)
	names, errNames := c.names()
	if err := errors.Join(err, errNames); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if c.last = state.Last; len(names) > 0 {
		n, _ := strconv.ParseInt(names[len(names)-1][:12], 10, 64) // digits
		c.last = max(c.last, n)
	}
	return c, nil
}

// names returns the captures' names in order.
func (c *Captures) names() ([]string, error) {
	names, err := c.fs.Names()
	names = slices.DeleteFunc(names, func(name string) bool { return !captureName.MatchString(name) })
	slices.Sort(names)
	return names, err
}

// Add compresses a segment's content into the next capture. began is when the segment was started.
func (c *Captures) Add(began time.Time, content io.WriterTo) error {
	n := c.last + 1
	// Record the number as used before its file exists.
	if err := writeJSON(c.own, stateName, captureState{format, n}); err != nil {
		return err
	}
	name := fmt.Sprintf("%012d-%s%s", n, began.UTC().Format(timeFormat), captureExt)
	err := writeFile(c.own, filepath.Join("..", name), func(w io.Writer) error {
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
	c.last = n
	return errors.Join(c.fs.Sync(), c.prune(time.Now()))
}

// prune removes captures whose lines are all too old: the next capture began before the time from which lines are kept.
func (c *Captures) prune(now time.Time) error {
	names, err := c.names()
	for i := 0; c.keep > 0 && i < len(names)-1 && err == nil; i++ {
		began, errTime := time.Parse(timeFormat, captureName.FindStringSubmatch(names[i+1])[2])
		if errTime != nil || now.Sub(began) < c.keep {
			break
		}
		err = c.fs.Remove(names[i])
	}
	return err
}
