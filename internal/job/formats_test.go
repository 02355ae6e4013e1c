package job_test

import (
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/job"
	"github.com/weirsync/weir/internal/source"
)

// TestSync_OtherFormats: a file of which no line is a message ends the run with its format, if five lines tell it, or its
// end; else its lines are rejected, and so are those of a connection, and behind a message. What a file is does not depend on
// how its lines come.
func TestSync_OtherFormats(t *testing.T) {
	for _, test := range []struct {
		lines, format string // "": none is told
		rejects       int64
	}{
		{`{"id":1}|[{"id":2}]`, "", 1},
		{"a,b|1,2", "CSV", 0},
		{"a,b|1,2|1,2|1,2|1,2|1,2|{}", "CSV", 0},
		{"a;b,c|1;2,3", "CSV with semicolons", 0},
		{"a\tb|\"x\ty\"\tz", "TSV", 0},
		{`a,b|1,2|{"id":1}`, "", 2},
		{`a,b|1,2|{"id":1}|1,2|1,2|1,2|1,2`, "", 6},
		{"a,b", "", 1},
		{"a,b|1", "", 2},
		{"a,b|1,2,3", "", 2},
		{"a,{b}|1,2", "", 2},
		{"[|1]", "one JSON array", 0},
		{`[{"id":1}]`, "one JSON array", 0},
		{"[1]|[2]", "", 2},
		{"{| 1|}", "JSON over several lines", 0},
		{"{a,b|1,2", "", 2},
		{"PK\x03\x04|{}", "a zip archive", 0},
		{"PK|PK", "", 2},
		{"SQLite format 3\x00\x10|", "an SQLite database", 0},
		{"BZh11AY&SY|", "compressed by bzip2", 0},
		{"data: 1|id: 2", "a stream of server-sent events", 0},
		{"data: 1|2", "", 2},
		{"data|1", "", 2},
		{"\u00a0", "", 1},
		{"\v||\v", "", 2},
	} {
		for _, how := range []string{"a", "a in pieces", "tcp://a:1"} {
			lane, _, pieces := strings.Cut(how, " ")
			if lane != "a" {
				test.format, test.rejects = "", 0
				for line := range strings.SplitSeq(test.lines, "|") {
					if line != "" && !strings.HasPrefix(line, `{"id":`) {
						test.rejects++
					}
				}
			}
			inMemory(t, func(b *bubble) {
				b.Rejects, _ = job.ParseRejects("table")
				b.Feed = job.Feed{}
				blocks, at := []string{strings.ReplaceAll(test.lines, "|", "\n") + "\n"}, source.Cursor("")
				if pieces {
					blocks = strings.SplitAfter(strings.TrimSuffix(blocks[0], "\n"), "\n")
					blocks[len(blocks)-1] += "\n"
				}
				b.steps = []func() source.Event{opened(lane, &at)}
				offset := int64(0)
				for _, text := range blocks {
					b.steps = append(b.steps, b.text(lane, offset, text))
					offset += int64(len(text))
				}
				b.steps = append(b.steps, ends(lane, nil))
				got := ""
				if err := b.run(); err != nil {
					got, _, _ = strings.Cut(strings.TrimPrefix(err.Error(), "a: this is "), ";")
				}
				if n := b.p.Rejected(); got != test.format || got == "" && n != test.rejects {
					t.Errorf("%q of %s: %q with %d rejects, want %q with %d", test.lines, how, got, n, test.format, test.rejects)
				}
			})
		}
	}
}
