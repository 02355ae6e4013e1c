package pipeline

import (
	"encoding/json"
	"fmt"

	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/source"
)

// A position tells how far a source was read. It is at the end of a line.
type position struct {
	line   int64 // lines before it
	offset int64 // bytes before it, uncompressed, as messages show them
	mark   mark
	read   int64 // lines of the source that this attempt has read
}

// A mark is what a checkpoint keeps, as JSON, to resume its source. The pipeline compares
// Source, but does not parse it.
type mark struct {
	Source source.Cursor `json:"source,omitempty"`
	Feed   feedMark      `json:"feed,omitzero"`
}

// feedMark is where weir asks a feed to resume.
type feedMark struct {
	Resume string `json:"resume,omitempty"` // the feed's resume value
	// Rejected identifies the rejected lines after it, which the feed may send again: for each a space and its CRC-64
	// (ECMA) in 16 hexadecimal digits. Before identifies the rejected lines right before its first message.
	Rejected string `json:"rejected,omitempty"`
	Before   string `json:"before,omitempty"`
}

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
