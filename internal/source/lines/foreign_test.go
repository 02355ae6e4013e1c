package lines_test

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/source/lines"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// TestReader_ForeignFormats: the first bytes of a stream tell whether it is of a format that weir does not read. If so,
// it has no lines. The result does not depend on how the bytes arrive.
func TestReader_ForeignFormats(t *testing.T) {
	testcheck.GoldenLines(t, "testdata/formats.txtar", func(t *testing.T, _, quoted string) string {
		text, err := strconv.Unquote(quoted)
		testcheck.NoError(t, err)
		text = strings.ReplaceAll(text, "|", "\n")
		if before, _, ok := strings.Cut(text, "…"); ok {
			text = before + strings.Repeat("1", 100_000) + strings.TrimPrefix(text, before+"…")
		}
		whole := formatOf(t, text, len(text), false)
		for _, live := range []bool{false, true} {
			for _, most := range []int{1, 7, 1000} {
				if got := formatOf(t, text, most, live); got != whole {
					t.Errorf("%s in pieces of %d, live %v: %s, want %s", quoted, most, live, got, whole)
				}
			}
		}
		return whole
	})
}

// formatOf returns the format of a text that is read in pieces, or "ours" if all its lines were read.
func formatOf(t *testing.T, text string, most int, live bool) string {
	t.Helper()
	o, err := source.Options{}.WithDefaults()
	testcheck.NoError(t, err)
	var r lines.Reader
	r.Init(context.Background(), "it", &pieces{[]byte(text), most}, &o)
	r.Live, r.Tail = live, true
	testcheck.NoError(t, r.Begin())
	defer r.Forget()
	for got := ""; ; {
		b, err := r.Next()
		switch {
		case err == io.EOF && got == text:
			return "ours"
		case err == io.EOF:
			t.Fatalf("%q was read of %q", got, text)
		case errors.As(err, new(*lines.ForeignError)) && got == "":
			what, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), "this is "), ";")
			return what
		case err != nil:
			t.Fatal(err)
		}
		got += string(b.Data)
		b.Release()
	}
}

// TestReader_BadFirstLine: a first line that cannot begin a foreign format is passed on before another one arrives. A
// line that can is passed on with the next ones.
func TestReader_BadFirstLine(t *testing.T) {
	for _, text := range []string{"{\"id\":\n", "{\"id\":1,\"a\":\"x\n", "3,\"b\":{}}\n", "text\n", "12\n"} {
		in, out := io.Pipe()
		go func() { _, _ = io.WriteString(out, text) }()
		o, err := source.Options{}.WithDefaults()
		testcheck.NoError(t, err)
		var r lines.Reader
		r.Init(context.Background(), "it", in, &o)
		r.Live = true
		testcheck.NoError(t, r.Begin())
		b, err := r.Next()
		testcheck.NoError(t, err)
		if string(b.Data) != text {
			t.Errorf("%q was read of %q", b.Data, text)
		}
		b.Release()
		r.Forget()
	}
}
