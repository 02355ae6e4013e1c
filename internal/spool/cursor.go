package spool

import (
	"crypto/rand"
	"encoding/json"
	"fmt"

	"github.com/weirsync/weir/internal/quantity"
	"github.com/weirsync/weir/internal/source"
)

// startOffset returns the offset of the first uncommitted line in the log at path. A log that does not match the
// checkpoint is emptied, if the feed can be asked again for its lines.
func startOffset(log *Log, c *Config, since source.Point, path string) (at int64, err error) {
	begin, _, end := log.Bounds()
	meta, held := log.Meta, end-begin
	empty := Meta{ID: rand.Text(), Job: c.Job, Source: c.Source, Seq: c.Seq}
	ours := meta.Job == c.Job && meta.Source == c.Source
	from := readCursor(since.Cursor)
	at, known := from.At, ours && from.Spool == meta.ID && meta.ID != ""
	// The database is unchanged since the log was begun.
	unused := ours && from.Spool == "" && c.Seq == meta.Seq && !c.FromStart
	switch {
	case known && (held == 0 || at > end): // what a power cut removed was committed
		return at, log.Reset(meta, at)
	case held == 0:
		return 0, log.Reset(empty, 0)
	case known && at >= begin:
		return at, nil
	case !ours:
		return 0, fmt.Errorf("the folder %s holds %s of job %q and %s: sync them, or use another folder", path, quantity.Bytes(held), meta.Job, meta.Source)
	case unused && begin == 0: // nothing was committed since
		return begin, nil
	case c.Repeats || c.FromStart:
		c.Log.Warn(fmt.Sprintf("%s in %s: discarded, because these lines do not follow the checkpoint; the feed is asked again", quantity.Bytes(held), path))
		return 0, log.Reset(empty, 0)
	case known, unused:
		c.Log.Warn(fmt.Sprintf("the database was restored to before the first line in %s: the lines between are lost", path))
		return begin, nil
	}
	return 0, fmt.Errorf("the folder %s holds %s of lines that were read before others that are in the table now: sync %s/*.jsonl by themselves, or remove them", path, quantity.Bytes(held), path)
}

// A logCursor is the content of the [source.Cursor] of a spooled lane.
type logCursor struct {
	Spool string `json:"spool"` // the log's ID
	At    int64  `json:"at"`
}

// cursor returns the cursor for an offset in the log.
func (l *Log) cursor(at int64) source.Cursor {
	text, _ := json.Marshal(logCursor{l.Meta.ID, at}) // a string and a number cannot fail
	return source.Cursor(text)
}

// readCursor decodes a cursor. In a cursor of another kind of source, Spool is "".
func readCursor(c source.Cursor) (q logCursor) {
	if c == "" || json.Unmarshal([]byte(c), &q) != nil {
		return logCursor{}
	}
	return q
}
