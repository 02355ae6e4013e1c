package job

import (
	"bytes"
	"errors"

	"github.com/weirsync/weir/internal/feed"
)

// A hint watches the first lines of a source for files that are not one object
// a line, so that the user gets one word instead of many rejects.
type hint struct {
	on    bool // no line was good yet
	first []byte
	count int // bad lines
}

const enough = 5 // bad lines before the file as a whole is called wrong

var (
	errArray  = errors.New("this is one JSON array; weir reads one object a line: jq -c '.[]' FILE | weir sync - …")
	errPretty = errors.New("this is JSON over several lines; weir reads one object a line: jq -c . FILE | weir sync - …")
)

func (h *hint) see(line []byte) {
	if h.on && h.first == nil {
		line = bytes.TrimSpace(line)
		h.first = bytes.Clone(line[:min(len(line), 64)])
	}
}

// bad counts a line that is no message, and returns what is wrong with the whole
// file where that is clear.
func (h *hint) bad(err *feed.Error) error {
	if !h.on {
		return nil
	}
	h.count++
	switch after := bytes.TrimSpace(h.first[1:]); {
	case h.first[0] == '[' && h.count == 1 && (len(after) == 0 || after[0] == '{'):
		return errArray
	case h.first[0] == '{' && h.count == 1 && err.Reason != feed.Truncated:
		h.on = false
	case h.first[0] == '{' && h.count == enough:
		return errPretty
	case h.first[0] != '{':
		h.on = false
	}
	return nil
}

// ended looks at a file that was short.
func (h *hint) ended() error {
	if h.on && h.count > 1 {
		return errPretty
	}
	return nil
}
