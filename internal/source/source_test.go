package source_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/testcheck"
)

// Blocks of records are cut between records, and cursors and offsets stay those of the records.
func TestBlock_CutRecords(t *testing.T) {
	b := &source.Block{Data: []byte("a\nb\nc\nd\ne\n"), Next: 20,
		Records: []source.Record{{Offset: 3, End: 4}, {Offset: 7, End: 6}, {Offset: 11, End: 10}}}
	b.AtOffset(func(offset int64) source.Cursor { return source.Cursor(fmt.Sprint(offset)) })
	n, end := b.Lines(2)
	if n != 2 || end != 6 {
		t.Fatalf("%d records, to %d", n, end)
	}
	first := b.Cut(end)
	if got := fmt.Sprintln(first.OffsetAfter(0), first.OffsetAfter(4), first.OffsetAfter(6), first.CursorAfter(4), first.CursorAfter(6), len(first.Records)); got != "3 7 11 7 11 2\n" {
		t.Errorf("the first: %s", got)
	}
	if got := fmt.Sprintln(b.OffsetAfter(0), b.OffsetAfter(4), b.CursorAfter(0), b.CursorAfter(4), len(b.Records), b.Records[0].End, string(b.Data)); got != "11 20 11 20 1 4 d\ne\n\n" {
		t.Errorf("the rest: %s", got)
	}
	if n, end := b.Lines(5); n != 1 || end != 4 {
		t.Errorf("%d records, to %d", n, end)
	}
	empty := &source.Block{Records: []source.Record{}, Next: 9}
	empty.AtOffset(func(offset int64) source.Cursor { return source.Cursor(fmt.Sprint(offset)) })
	if empty.CursorAfter(0) != "9" || empty.OffsetAfter(0) != 9 {
		t.Errorf("without records: %s", empty.CursorAfter(0))
	}
}

func TestBlock_Lines(t *testing.T) {
	b := &source.Block{Data: []byte("a\nbb\nc"), Offset: 5}
	if n, end := b.Lines(2); n != 2 || end != 5 {
		t.Errorf("%d lines, to %d", n, end)
	}
	if n, end := b.Lines(9); n != 3 || end != 6 {
		t.Errorf("%d lines, to %d", n, end)
	}
	if b.OffsetAfter(5) != 10 {
		t.Errorf("offset %d", b.OffsetAfter(5))
	}
}

func TestPartition(t *testing.T) {
	lane := source.PartitionName("C", "a.b", 7)
	if topic, number, ok := source.Partition(lane); !ok || topic != "a.b" || number != "7" {
		t.Errorf("%s: %s %s", lane, topic, number)
	}
	for _, name := range []string{"stdin", "/kafka:/C/t/7", "kafka://b1:9092/t", "kafka://C/t/x"} {
		if _, _, ok := source.Partition(name); ok {
			t.Errorf("%s is a partition", name)
		}
	}
}

func TestExpand(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, name := range []string{"b.jsonl", "a.jsonl", "[x].gz"} {
		testcheck.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	testcheck.NoError(t, os.Mkdir("sub.jsonl", 0o700))
	f := func(args []string, want ...string) {
		t.Helper()
		got, err := source.Expand(args, false)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v, want %q", args, got, err, want)
		}
	}
	f(nil, "-")
	f([]string{"-", "/dev/stdin", "a.jsonl"}, "-", "a.jsonl")
	f([]string{"tcp://localhost:80", "b.jsonl", "*.jsonl", "./a.jsonl", filepath.Join(dir, "b.jsonl")},
		"tcp://localhost:80", "b.jsonl", "a.jsonl")
	f([]string{"[x].gz"}, "[x].gz")

	// What is to be followed may come later, a glob's matches not.
	if got, err := source.Expand([]string{"later/x.jsonl"}, true); err != nil || !slices.Equal(got, []string{"later/x.jsonl"}) {
		t.Errorf("followed: %q, %v", got, err)
	}
	_, err := source.Expand([]string{"later*"}, true)
	if err == nil || !strings.Contains(err.Error(), "no file matches") {
		t.Errorf("%v, want %q", err, "no file matches")
	}

	fail := func(arg string, code int, part string) {
		t.Helper()
		_, err := source.Expand([]string{arg}, false)
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v, want %q", err, part)
		}
		var notFound *source.NotFoundError
		if errors.As(err, &notFound) != (code == 2) || notFound != nil && notFound.ExitCode() != code {
			t.Errorf("%s: %v (%T)", arg, err, err)
		}
	}
	fail("none.jsonl", 2, "none.jsonl: no such file")
	fail("*.csv", 2, "*.csv: no file matches")
	fail("sub*", 2, "no file matches")
	fail("sub.jsonl", 1, "is a directory")
	fail("tcp://nowhere", 1, "tcp://host:port")
	fail("http://x/y", 1, "unknown kind of source")
	fail("[", 1, "syntax error in pattern")
}

func TestTraitsOf(t *testing.T) {
	for spec, want := range map[string]source.Traits{
		"-":                    {Rewindable: true},
		"/dev/stdin":           {Rewindable: true},
		source.StdinName:       {Rewindable: true},
		"feed.jsonl":           {Rewindable: true, Named: true},
		"/var/tcp":             {Rewindable: true, Named: true},
		"tcp://host:1":         {Live: true, Named: true, Dialed: true},
		"tls://host:1":         {Live: true, Named: true, Dialed: true},
		"kafka://b/t":          {Live: true, Rewindable: true, Named: true, Records: true},
		"kafka+tls://b/t":      {Live: true, Rewindable: true, Named: true, Records: true},
		"kafka://C/t/7":        {Live: true, Rewindable: true, Named: true, Records: true},
		"tcp-listen://:1":      {Live: true, Named: true},
		"tls-listen://[::1]:1": {Live: true, Named: true},
	} {
		if got := source.TraitsOf(spec); got != want {
			t.Errorf("%s: %+v, want %+v", spec, got, want)
		}
	}
}
