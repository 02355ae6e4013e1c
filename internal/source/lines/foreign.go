package lines

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/weirsync/weir/internal/feed"
)

// A stream's format is recognized from its first lines, as far as they are in its first bytes.
const (
	inspectedBytes = 64 << 10
	inspectedLines = 5
)

// A ForeignError reports a stream of a format that weir does not read.
type ForeignError struct {
	what    string
	convert string // a command that converts it to lines, or ""
}

func (e *ForeignError) Error() string {
	text := fmt.Sprintf("this is %s; weir reads one object a line", e.what)
	if e.convert != "" {
		text += ": " + e.convert + " | weir sync - …"
	}
	return text
}

var (
	pretty = &ForeignError{"JSON over several lines", "jq -c . FILE"}
	array  = &ForeignError{"one JSON array", "jq -c '.[]' FILE"}
	events = &ForeignError{"a stream of server-sent events", "sed -n 's/^data: *//p' FILE"}
	html   = &ForeignError{"HTML, perhaps an error page of the server that it was loaded from", ""}
	tables = map[byte]*ForeignError{
		',':  {"CSV", "mlr --icsv --ojsonl cat FILE"},
		';':  {"CSV with semicolons", "mlr --icsv --ifs semicolon --ojsonl cat FILE"},
		'\t': {"TSV", "mlr --itsv --ojsonl cat FILE"},
	}
	// magics identify a format by bytes at an offset.
	magics = []struct {
		at     int
		magic  string
		format *ForeignError
	}{
		{0, "\xfd7zXZ\x00", &ForeignError{"compressed by xz", "xz -dc FILE"}},
		{len("BZh9"), "1AY&SY", &ForeignError{"compressed by bzip2", "bzip2 -dc FILE"}},
		{0, "PK\x03\x04", &ForeignError{"a zip archive", "unzip -p FILE"}},
		{257, "ustar", &ForeignError{"a tar archive", "tar -xOf FILE"}},
		{0, "PAR1", &ForeignError{"Parquet", `duckdb -c "COPY (FROM 'FILE') TO '/dev/stdout' (FORMAT json)"`}},
		{0, "SQLite format 3\x00", &ForeignError{"an SQLite database", "sqlite3 -json FILE 'SELECT * FROM TABLE' | jq -c '.[]'"}},
		{0, "<!doctype html", html},
		{0, "<html", html},
		{0, "<?xml", &ForeignError{"XML", ""}},
		{0, "\xff\xfe", &ForeignError{"UTF-16", "iconv -f UTF-16 -t UTF-8 FILE"}},
		{0, "\xfe\xff", &ForeignError{"UTF-16", "iconv -f UTF-16 -t UTF-8 FILE"}},
		{0, "{\x00", &ForeignError{"UTF-16", "iconv -f UTF-16LE -t UTF-8 FILE"}},
		{0, "\x00{", &ForeignError{"UTF-16", "iconv -f UTF-16BE -t UTF-8 FILE"}},
	}
)

// recognize reads the beginning of a stream until it tells whether weir reads its format. If not, the stream has no
// lines, and its error is a [ForeignError].
func (f *Framer) recognize() {
	seen := -1
	for open := true; open && f.err == nil; {
		f.read()
		now := &f.filled
		enough := now.n >= min(inspectedBytes, now.limit)
		if now.cut == seen && !enough && f.err == nil {
			continue // no other line
		}
		seen = now.cut
		var foreign *ForeignError
		foreign, open = formatOf(now.bytes()[:min(now.n, inspectedBytes)], enough, f.err != nil)
		if foreign != nil {
			now.n, now.cut, f.err = 0, 0, foreign
		}
		open = open && !enough
	}
}

// formatOf returns the format of a stream that begins with some bytes, if weir does not read it. open means that more
// bytes may tell. enough means that there are as many as are inspected, ended that the stream has no more.
//
// A bad first line alone makes no format: it may be the rest of a line. Only magic bytes are enough. JSON over several
// lines must be valid as far as it is inspected; the lines of tables and events must all be alike, and none of them an
// object.
func formatOf(text []byte, enough, ended bool) (foreign *ForeignError, open bool) {
	text = bytes.TrimLeft(text, feed.Marks+" \t\r\n")
	for _, m := range magics {
		if end := m.at + len(m.magic); len(text) >= end && bytes.EqualFold(text[m.at:end], []byte(m.magic)) {
			return m.format, false
		}
	}
	switch whole := bytes.IndexByte(text, '\n') >= 0; {
	case len(text) == 0, !whole && !enough && !ended:
		return nil, true
	case text[0] == '{':
		return spread(text, pretty, enough, ended)
	case text[0] == '[':
		return spread(text, array, enough, ended)
	}
	var lines [][]byte
	for line := range bytes.Lines(text) {
		whole := line[len(line)-1] == '\n'
		line = bytes.Trim(line, " \t\r\n")
		if len(line) > 0 && len(lines) < inspectedLines && (whole || ended) {
			lines = append(lines, line)
		}
	}
	foreign = alike(lines)
	switch {
	case foreign == nil:
		return nil, false
	case len(lines) < inspectedLines && !enough && !ended:
		return nil, true
	case len(lines) < 2:
		return nil, false
	}
	return foreign, false
}

// spread returns the format of JSON that begins with a text, if its first value takes several lines. The first of them
// ends with a comma or an opening bracket: other ones are torn.
func spread(text []byte, format *ForeignError, enough, ended bool) (foreign *ForeignError, open bool) {
	var value json.RawMessage
	err := json.NewDecoder(bytes.NewReader(text)).Decode(&value)
	lines := bytes.Count(text, []byte("\n"))
	line, _, _ := bytes.Cut(text, []byte("\n"))
	line = bytes.TrimRight(line, " \t\r")
	switch {
	case err == nil && bytes.IndexByte(value, '\n') >= 0:
		return format, false
	case err != io.ErrUnexpectedEOF, ended, lines > 0 && !bytes.ContainsAny(line[len(line)-1:], ",[{"):
		return nil, false
	case lines < inspectedLines && !enough:
		return nil, true
	case lines > 1, format == array && lines == 1:
		return format, false
	}
	return nil, false
}

// alike returns the format of lines that are all events, or have the same number of cells, more than one.
func alike(lines [][]byte) *ForeignError {
	switch {
	case slices.ContainsFunc(lines, func(line []byte) bool { return line[0] == '{' }):
		return nil
	case !slices.ContainsFunc(lines, func(line []byte) bool { return !isEvent(line) }):
		return events
	case bytes.ContainsAny(lines[0], "{}[]<>"):
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

// isEvent reports whether a line is of a server-sent event.
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
