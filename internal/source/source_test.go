package source_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/source/file"
	"github.com/weirsync/weir/internal/source/kafka"
	"github.com/weirsync/weir/internal/source/tcp"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// kinds are the program's kinds of sources.
var kinds = source.Kinds{file.Kind(file.Options{}), tcp.Dialed(tcp.Options{}), tcp.Listening(tcp.Options{}), kafka.Kind(kafka.Options{})}

// Blocks of records are cut between records. The pieces have the records' cursors and offsets.
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

// TestExpand runs the arguments in testdata/expanded.txtar, in a folder with some files.
func TestExpand(t *testing.T) {
	path, err := filepath.Abs("testdata/expanded.txtar")
	testcheck.NoError(t, err)
	dir := t.TempDir()
	t.Chdir(dir)
	for _, name := range []string{"b.jsonl", "a.jsonl", "[x].gz"} {
		testcheck.NoError(t, os.WriteFile(name, nil, 0o600))
	}
	testcheck.NoError(t, os.Mkdir("sub.jsonl", 0o700))
	testcheck.GoldenLines(t, path, func(_ *testing.T, how, args string) string {
		specs, err := kinds.Expand(strings.Fields(strings.ReplaceAll(args, "FOLDER", dir)), how == "followed")
		if missing := (*source.NotFoundError)(nil); errors.As(err, &missing) {
			return fmt.Sprintf("error %d: %v", missing.ExitCode(), err)
		} else if err != nil {
			return "error: " + err.Error()
		}
		return strings.Join(specs, " ")
	})
}

// TestTypeOf checks the sources in testdata/types.txtar.
func TestTypeOf(t *testing.T) {
	testcheck.GoldenLines(t, "testdata/types.txtar", func(_ *testing.T, _, spec string) string { return string(kinds.Type(spec)) })
}
