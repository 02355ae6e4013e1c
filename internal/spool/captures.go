package spool

import (
	"errors"
	"fmt"
	"io"
	"path"
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
	// Dir is a hidden folder inside, with the lock and unfinished files. It can hold a log.
	*Dir
	fs   FS
	keep time.Duration
	last int64 // the last number used
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
func OpenCaptures(path string, keep time.Duration) (c *Captures, err error) {
	dir, err := openDir(filepath.Join(path, ownDir), path)
	if err != nil {
		return nil, err
	}
	c = &Captures{Dir: dir, fs: folder(path), keep: keep}
	if err := c.open(); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return c, nil
}

func (c *Captures) open() error {
	state := captureState{Format: format}
	if err := readJSON(c.Dir, stateName, &state); err != nil {
		return err
	}
	if state.Format > format {
		return newerFormat(stateName, state.Format)
	}
	c.last = state.Last
	names, err := c.names()
	if len(names) > 0 {
		n, _ := strconv.ParseInt(captureName.FindStringSubmatch(names[len(names)-1])[1], 10, 64) // digits
		c.last = max(c.last, n)
	}
	return err
}

// names returns the captures' names in order.
func (c *Captures) names() ([]string, error) {
	names, err := c.fs.Names()
	names = slices.DeleteFunc(names, func(name string) bool { return !captureName.MatchString(name) })
	slices.Sort(names)
	return names, err
}

// Add compresses a segment's content into the next capture. began is when the segment was started.
func (c *Captures) Add(began time.Time, content io.Reader) error {
	const part = "capture" + partExt
	err := fill(c.Dir, part, func(w io.Writer) error {
		z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
		if err != nil {
			return err
		}
		_, err = io.Copy(z, content)
		return errors.Join(err, z.Close())
	})
	if err != nil {
		return err
	}
	// Record the number as used before its file exists.
	if err := writeJSON(c.Dir, stateName, captureState{format, c.last + 1}); err != nil {
		return err
	}
	c.last++
	name := fmt.Sprintf("%012d-%s%s", c.last, began.UTC().Format(timeFormat), captureExt)
	if err := c.fs.Rename(path.Join(ownDir, part), name); err != nil {
		return err
	}
	return errors.Join(c.fs.Sync(), c.prune(time.Now()))
}

// prune removes captures whose lines are all too old: the next capture began before the time from which lines are kept.
func (c *Captures) prune(now time.Time) error {
	if c.keep == 0 {
		return nil
	}
	names, err := c.names()
	if err != nil {
		return err
	}
	for i := range len(names) - 1 {
		next, err := time.Parse(timeFormat, captureName.FindStringSubmatch(names[i+1])[2])
		if err != nil || now.Sub(next) < c.keep {
			break
		}
		if err := c.fs.Remove(names[i]); err != nil {
			return err
		}
	}
	return nil
}
