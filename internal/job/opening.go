package job

import (
	"bytes"
	"errors"

	"github.com/weirsync/weir/internal/feed"
)

// opening watches the first lines of a source for files that are not one object
// a line, so that the user gets one word instead of many rejects.
type opening struct {
	on    bool // no line was good yet
	first []byte
	count int // bad lines
}

const enough = 5 // bad lines before the file as a whole is called wrong

var (
	errArray  = errors.New("this is one JSON array; weir reads one object a line: jq -c '.[]' FILE | weir sync - …")
	errPretty = errors.New("this is JSON over several lines; weir reads one object a line: jq -c . FILE | weir sync - …")
)

func (o *opening) see(line []byte) {
	if o.on && o.first == nil {
		line = bytes.TrimSpace(line)
		o.first = bytes.Clone(line[:min(len(line), 64)])
	}
}

// bad counts a line that is no message, and returns what is wrong with the whole
// file where that is clear.
func (o *opening) bad(err *feed.Error) error {
	if !o.on {
		return nil
	}
	o.count++
	switch after := bytes.TrimSpace(o.first[1:]); {
	case o.first[0] == '[' && o.count == 1 && (len(after) == 0 || after[0] == '{'):
		return errArray
	case o.first[0] == '{' && o.count == 1 && err.Reason != feed.Truncated:
		o.on = false
	case o.first[0] == '{' && o.count == enough:
		return errPretty
	case o.first[0] != '{':
		o.on = false
	}
	return nil
}

// ended looks at a file that was short.
func (o *opening) ended() error {
	if o.on && o.count > 1 {
		return errPretty
	}
	return nil
}
