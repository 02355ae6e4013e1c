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
