package spool

import (
	"crypto/rand"
	"encoding/json"
	"fmt"

	"github.com/weirsync/weir/internal/quantity"
	"github.com/weirsync/weir/internal/source"
)

// startOffset returns the offset of the first uncommitted line in the log. A log that does not match the checkpoint is
// emptied, if all of it is committed or the feed can be asked again for its lines.
func (k *Keeper) startOffset(since source.Point) (at int64, err error) {
	begin, end := k.log.Bounds()
	meta, held := k.log.Meta, quantity.Bytes(end-begin)
	from, ours := readCursor(since.Cursor), meta.Job == k.c.Job && meta.Source == k.c.Source
	known := ours && from.Spool == meta.ID && meta.ID != ""
	// Nothing was committed since the log was begun.
	unused := ours && from.Spool == "" && k.c.Seq == meta.Seq && !k.c.FromStart && begin == 0
	switch {
	case known && (begin == end || from.At > end): // what a power cut removed was committed
		return from.At, k.log.Reset(meta, from.At, k.archive)
	case begin == end:
	case known && from.At >= begin, unused:
		return from.At, nil
	case !ours:
		return 0, fmt.Errorf("the folder %s holds %s of job %q and %s: sync them, or use another folder", k.path, held, meta.Job, meta.Source)
	case k.c.Repeats:
		k.c.Log.Warn(fmt.Sprintf("%s in %s: discarded, because these lines do not follow the checkpoint; the feed is asked again", held, k.path))
	default:
		return 0, fmt.Errorf("the folder %s holds %s of lines that do not follow those in the table: move %s/*.jsonl to another folder, and sync them separately if the table lacks them", k.path, held, k.path)
	}
	return 0, k.log.Reset(Meta{ID: rand.Text(), Job: k.c.Job, Source: k.c.Source, Seq: k.c.Seq}, 0, k.archive)
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
