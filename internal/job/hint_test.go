package job

import (
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/source"
)

// TestGuess: the first lines of a file that has no messages tell its format.
func TestGuess(t *testing.T) {
	f := func(lines, want string) {
		t.Helper()
		b, e, got := beginning{awaits: true}, &event{Block: &source.Block{}}, ""
		for line := range strings.SplitSeq(lines, "\n") {
			err := &feed.Error{}
			if line[0] == '{' {
				err.Reason = feed.Truncated
			}
			e.lines = append(e.lines, feed.Line{Text: []byte(line), Err: err})
		}
		f := b.add(e)
		if f == nil {
			f = b.end()
		}
		if f != nil {
			got = f.Error()
		}
		if what, _, _ := strings.Cut(strings.TrimPrefix(got, "this is "), ";"); what != want {
			t.Errorf("%q: %s, want %s", lines, got, want)
		}
	}
	f("[", "one JSON array")
	f(`[{"id":1}]`, "one JSON array")
	f("[1]", "")
	f("[1]\n[2]", "")
	f("{\n1\n}", "JSON over several lines")
	f("{", "") // torn
	f("PK\x03\x04", "a zip archive")
	f("PK", "")
	f("SQLite format 3\x00\x10", "an SQLite database")
	f("BZh11AY&SY", "compressed by bzip2")
	f("a,b\n1,2", "CSV")
	f("a;b,c\n1;2,3", "CSV with semicolons")
	f("a\tb\n\"x\ty\"\tz", "TSV")
	f("a,b", "")
	f("a,b\n1,2,3", "")
	f("a,b\n1,2\n1,2\n1,2\n1,2", "CSV")
	f("{a,b\n1,2", "JSON over several lines")
	f("a,{b}\n1,2", "")
	f("data: 1\nid: 2", "a stream of server-sent events")
	f("data: 1\n2", "")
	f("data\n1", "")
	f("\u00a0", "")
	f("\v\n\v", "")
}
