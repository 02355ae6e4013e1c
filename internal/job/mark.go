package job

import (
	"encoding/json"
	"fmt"

	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/source"
)

// A position is how far a source was read: to the end of a line.
type position struct {
	line   int64 // lines before it
	offset int64 // bytes before it, as messages and people count them
	mark   mark
	read   int64 // lines that this attempt has read of it
}

// A mark is what a checkpoint keeps, in JSON, to have its source resumed. The source, or the queue around
// it, has a part that the job does not read.
type mark struct {
	Source source.Cursor `json:"source,omitempty"`
	Feed   feedMark      `json:"feed,omitzero"`
}

// feedMark is from where a feed that weir connects to is asked to resume.
type feedMark struct {
	Resume string `json:"resume,omitempty"` // in its own words
	// Rejected has the bad lines that came after it, which the feed may send again:
	// for each a space and its CRC-64 (ECMA) in 16 hexadecimal digits. Before has those
	// that came right before its first message.
	Rejected string `json:"rejected,omitempty"`
	Before   string `json:"before,omitempty"`
}

// positionOf reads where a checkpoint says that its source is to be resumed.
func positionOf(cp sink.Checkpoint) (p position, err error) {
	if cp.Mark == "" {
		return p, nil
	}
	p.line, p.offset = cp.Line, cp.Offset
	return p, json.Unmarshal([]byte(cp.Mark), &p.mark)
}

// checkpoint returns the checkpoint of a position.
func (p position) checkpoint() (sink.Checkpoint, error) {
	text, err := json.Marshal(p.mark)
	if err != nil {
		return sink.Checkpoint{}, fmt.Errorf("keeping a checkpoint: %w", err)
	}
	return sink.Checkpoint{Line: p.line, Offset: p.offset, Mark: string(text)}, nil
}

// A laneCursor counts the lines that were read of a lane.
type laneCursor struct {
	read   int64 // that this attempt has read: it only grows
	before int64 // what read was before the first line of the file or connection at hand; negative if earlier runs read some of it
}

// begin begins a lane of which some lines were read before.
func (c *laneCursor) begin(lines int64) { c.before = c.read - lines }

// restart begins another file or connection.
func (c *laneCursor) restart() { c.begin(0) }

// advance moves on by a line.
func (c *laneCursor) advance() { c.read++ }

// line is how many lines of the file or connection at hand were read, as people count.
func (c *laneCursor) line() int64 { return c.read - c.before }

// at is the position after the lines that were read.
func (c *laneCursor) at(offset int64, mark mark) position {
	return position{line: c.line(), offset: offset, mark: mark, read: c.read}
}
