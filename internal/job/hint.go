package job

import (
	"bytes"
	"fmt"

	"github.com/weirsync/weir/internal/feed"
)

// A hint watches the first lines of a source for files that are not one object
// a line, so that the user gets one word instead of many rejects.
type hint struct {
	on    bool // no line was good yet
	count int  // bad lines
	// guess is what all of them look like.
	guess *format
	cells int // of the first line of a table of text
}

const enough = 5 // bad lines before the file as a whole is called wrong

// A format is one of files that weir does not read.
type format struct {
	what  string
	magic string // what its files have
	at    int    // at this byte
	// convert is the command that makes lines of it; "" where there is none.
	convert string
}

var (
	// marked are those that their first bytes tell.
	marked = []format{
		{what: "compressed by xz", magic: "\xfd7zXZ\x00", convert: "xz -dc FILE"},
		{what: "compressed by bzip2", magic: "1AY&SY", at: len("BZh9"), convert: "bzip2 -dc FILE"},
		{what: "a zip archive", magic: "PK\x03\x04", convert: "unzip -p FILE"},
		{what: "a tar archive", magic: "ustar", at: 257, convert: "tar -xOf FILE"},
		{what: "Parquet", magic: "PAR1", convert: `duckdb -c "COPY (FROM 'FILE') TO '/dev/stdout' (FORMAT json)"`},
		{what: "an SQLite database", magic: "SQLite format 3\x00", convert: "sqlite3 -json FILE 'SELECT * FROM TABLE' | jq -c '.[]'"},
		{what: "HTML, perhaps an error page of the server that it was loaded from", magic: "<!doctype html"},
		{what: "HTML, perhaps an error page of the server that it was loaded from", magic: "<html"},
	}
	array  = format{what: "one JSON array", convert: "jq -c '.[]' FILE"}
	pretty = format{what: "JSON over several lines", convert: "jq -c . FILE"}
	events = format{what: "a stream of server-sent events", convert: "sed -n 's/^data: *//p' FILE"}
	tables = map[byte]*format{
		',':  {what: "CSV", convert: "mlr --icsv --ojsonl cat FILE"},
		';':  {what: "CSV with semicolons", convert: "mlr --icsv --ifs semicolon --ojsonl cat FILE"},
		'\t': {what: "TSV", convert: "mlr --itsv --ojsonl cat FILE"},
	}
)

func (f *format) Error() string {
	text := fmt.Sprintf("this is %s; weir reads one object a line", f.what)
	if f.convert != "" {
		text += ": " + f.convert + " | weir sync - …"
	}
	return text
}

// bad counts a line that is no message, and returns what is wrong with the whole
// file where that is clear.
func (h *hint) bad(line []byte, err *feed.Error) error {
	if !h.on {
		return nil
	}
	line = bytes.Trim(line, " \t\r") // a line of other spaces is not blank
	if h.count++; h.count == 1 {
		if f := markedFormat(line); f != nil {
			return f
		}
		h.begin(line, err)
	}
	if h.on = h.guess != nil && h.fits(line); h.on && h.count == enough {
		return h.guess
	}
	return nil
}

// ended looks at a file that was short.
func (h *hint) ended() error {
	if h.on && h.count > 1 {
		return h.guess
	}
	return nil
}

// markedFormat is the format that the first line of a file tells, or nil.
func markedFormat(line []byte) *format {
	for i := range marked {
		f := &marked[i]
		if end := f.at + len(f.magic); len(line) >= end && bytes.EqualFold(line[f.at:end], []byte(f.magic)) {
			return f
		}
	}
	if after, ok := bytes.CutPrefix(line, []byte("[")); ok {
		if after = bytes.TrimSpace(after); len(after) == 0 || after[0] == '{' {
			return &array
		}
	}
	return nil
}

// begin guesses by the first bad line what the file is.
func (h *hint) begin(line []byte, err *feed.Error) {
	switch {
	case line[0] == '{':
		if err.Reason == feed.Truncated {
			h.guess = &pretty
		}
	case isEvent(line):
		h.guess = &events
	case !bytes.ContainsAny(line, "{}[]<>"): // the names of a table's columns
		for _, separator := range []byte("\t;,") {
			if n := cells(line, separator); n > 1 {
				h.guess, h.cells = tables[separator], n
				return
			}
		}
	}
}

// fits reports whether a bad line is one of a file as the first one told.
func (h *hint) fits(line []byte) bool {
	switch h.guess {
	case &pretty:
		return true
	case &events:
		return isEvent(line)
	}
	for separator, f := range tables {
		if f == h.guess {
			return cells(line, separator) == h.cells
		}
	}
	return false
}

// isEvent reports whether a line is one of server-sent events.
func isEvent(line []byte) bool {
	name, _, ok := bytes.Cut(line, []byte(":"))
	switch string(name) {
	case "", "data", "event", "id", "retry":
		return ok
	}
	return false
}

// cells is the number of a line's cells, whose quotes may hold separators.
func cells(line []byte, separator byte) int {
	n, quoted := 1, false
	for _, c := range line {
		switch {
		case c == '"':
			quoted = !quoted
		case c == separator && !quoted:
			n++
		}
	}
	return n
}
