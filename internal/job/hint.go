package job

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/weirsync/weir/internal/feed"
)

// badLinesToDecide is how many lines at most are inspected to recognize the format of a source.
const badLinesToDecide = 5

// inspectedBytes is how much of each line is inspected.
const inspectedBytes = 64 << 10

// A format is a file format that weir does not read.
type format struct {
	what  string
	magic string // bytes that its files contain
	at    int    // offset of magic
	// convert is a command that converts it to lines, or "".
	convert string
}

var (
	// marked are the formats that their first bytes identify.
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

// A beginning collects the first lines of a source, until one is a message or there are enough to recognize a format.
type beginning struct {
	awaits bool     // no message has come
	lines  [][]byte // the lines that came so far
	torn   bool     // the first line begins an object that has no end
}

// add inspects the next block. It returns the source's format, or nil if the source has messages, if the format is
// unknown, or if there are too few lines yet. The result does not depend on how lines are cut into blocks.
func (b *beginning) add(e *event) *format {
	if e.Oversize > 0 && b.awaits {
		first := len(b.lines) == 0
		if *b = (beginning{}); first {
			return markedFormat(e.Data)
		}
	}
	for i := 0; i < len(e.lines) && b.awaits; i++ {
		l := &e.lines[i]
		if l.Blank {
			continue
		}
		if l.Err == nil {
			*b = beginning{}
			return nil
		}
		line := bytes.Trim(l.Text, " \t\r") // a line of other spaces is not blank
		if len(b.lines) == 0 {
			if f := markedFormat(line); f != nil {
				return f
			}
			err := (*feed.Error)(nil)
			b.torn = bytes.HasPrefix(line, []byte("{")) && errors.As(l.Err, &err) && err.Reason == feed.Truncated
		}
		b.lines = append(b.lines, bytes.Clone(line[:min(len(line), inspectedBytes)]))
		if len(b.lines) == badLinesToDecide {
			return b.end()
		}
	}
	return nil
}

// end returns the format of a source after enough lines, or at its end. A single line is not enough for CSV.
func (b *beginning) end() *format {
	lines, torn := b.lines, b.torn
	*b = beginning{}
	switch {
	case len(lines) < 2:
		return nil
	case torn:
		return &pretty
	case !slices.ContainsFunc(lines, func(line []byte) bool { return !isEvent(line) }):
		return &events
	}
	return tableFormat(lines)
}

// tableFormat returns the format of lines that have the same number of cells, more than one, or nil.
func tableFormat(lines [][]byte) *format {
	if bytes.ContainsAny(lines[0], "{}[]<>") {
		return nil // column names contain none of these
	}
	for _, separator := range []byte("\t;,") {
		n := cells(lines[0], separator)
		if n == 1 {
			continue
		}
		if slices.ContainsFunc(lines, func(line []byte) bool { return cells(line, separator) != n }) {
			return nil
		}
		return tables[separator]
	}
	return nil
}

// markedFormat returns the format that the first line of a file identifies, or nil.
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

// isEvent reports whether a line is a server-sent event.
func isEvent(line []byte) bool {
	name, _, ok := bytes.Cut(line, []byte(":"))
	switch string(name) {
	case "", "data", "event", "id", "retry":
		return ok
	}
	return false
}

// cells counts the cells of a line. Quoted cells may contain separators.
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
