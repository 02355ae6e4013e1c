package file_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/source/file"
	"github.com/weirsync/weir/internal/source/lines"
	"github.com/weirsync/weir/internal/test/testcheck"
)

func TestOpen_DetectsAnotherStdin(t *testing.T) {
	data := feed(30)
	all, err := readStdin(bytes.NewReader(data), source.Options{})
	testcheck.NoError(t, err)
	other := bytes.Replace(data, data[len(data)/2:len(data)/2+3], []byte("abc"), 1)
	for what, in := range map[string][]byte{"is not the file that was read before": other, "shrank below the checkpoint": data[:40]} {
		_, err = readFrom("-", bytes.NewReader(in), source.Options{}, all[len(all)-1].after)
		wantChanged(t, err, "stdin "+what)
	}
}

func TestOpen_AcceptsTheNewlineOfATailThatWasConsumed(t *testing.T) {
	for name, form := range forms {
		path := tempFile(t, form(t, []byte("{\"id\":1}\n{\"id\":2}")))
		lines, err := readAll(path, source.Options{}, "")
		if err != nil || !lines[1].tail {
			t.Fatal(lines, err)
		}
		write(t, path, form(t, []byte("{\"id\":1}\n{\"id\":2}\n\n{\"id\":3}\n")))
		rest, err := readAll(path, source.Options{}, lines[1].after)
		if err != nil || text(rest) != "\n{\"id\":3}\n" || rest[0].off != 18 {
			t.Errorf("%s: %v, %v", name, rest, err)
		}
	}
}

func wantChanged(t *testing.T, err error, parts ...string) {
	t.Helper()
	if !errors.As(err, new(*source.ChangedError)) {
		t.Fatalf("%v (%T) is no ChangedError", err, err)
	}
	wantError(t, err, parts...)
	if !strings.HasSuffix(err.Error(), "--restart reread") {
		t.Errorf("%q does not end with the way out", err)
	}
}

func TestOpen_TellsChangedFiles(t *testing.T) {
	data := feed(400)
	for _, form := range forms {
		path := tempFile(t, form(t, data))
		lines, err := readAll(path, source.Options{}, "")
		testcheck.NoError(t, err)
		at := lines[300].position(t)
		reopen := func(data []byte) error {
			write(t, path, form(t, data))
			_, err := readAll(path, source.Options{}, lines[300].after)
			return err
		}
		change := func(i int64) []byte {
			d := slices.Clone(data)
			d[i]++
			return d
		}
		wantChanged(t, reopen(data[:at.Offset-1]), path, "shrank below the checkpoint")
		wantChanged(t, reopen(nil), path, "shrank below the checkpoint")
		wantChanged(t, reopen(change(1)), path, "is not the file that was read before", "first 4096 bytes")
		wantChanged(t, reopen(change(at.Offset-2)), path, "is not the file that was read before")
		if err := reopen(change(at.Offset + 1)); err != nil {
			t.Errorf("a change after the checkpoint: %v", err)
		}
		if err := reopen(data[:at.Offset]); err != nil {
			t.Errorf("cut at the checkpoint: %v", err)
		}
	}
}

func TestDone_OnlyWhileTheFileIsTheSame(t *testing.T) {
	data := feed(40)
	for name, form := range forms {
		in := form(t, data)
		path := tempFile(t, in)
		lines, err := readAll(path, source.Options{}, "")
		testcheck.NoError(t, err)
		end := lines[len(lines)-1].after
		check := func(from source.Cursor, done bool, rest int) {
			t.Helper()
			s := open(t, path, source.Options{}, from)
			got, err := drain(s)
			if s.Done() != done || len(got) != rest || err != nil {
				t.Errorf("%s: done %v, %d lines, %v", name, s.Done(), len(got), err)
			}
		}
		check("", false, 40)
		check(lines[38].after, false, 1)
		check(end, true, 0)
		testcheck.NoError(t, os.Chtimes(path, time.Time{}, time.Unix(1, 0)))
		check(end, name == "plain", 0) // gzip is read once more to be sure
		write(t, path, slices.Concat(in, in))
		check(end, false, 40)
	}
}

// Whatever checkpoint a database has, reading resumes at the beginning of a line or ends with an error.
func FuzzCursor(f *testing.F) {
	const text = "{\"id\":1}\n{\"id\":2}\n{\"id\":3}\n"
	path := filepath.Join(f.TempDir(), "feed.jsonl")
	testcheck.NoError(f, os.WriteFile(path, []byte(text), 0o600))
	for _, seed := range []string{`{}`, `{"Offset":9,"HeadLen":0}`, `{"Offset":9,"LastLen":9,"LastSum":1}`, `{"Offset":-1}`, `{"Offset":1e18}`, `{"Offset":9,"HeadLen":-5}`, `{"Offset":27,"FileSize":27}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, mark []byte) {
		var from lines.Position
		_ = json.Unmarshal(mark, &from) // if not, Open reports it
		s, err := file.Open(t.Context(), path, source.Options{}, file.Options{}, source.Cursor(mark))
		if err != nil {
			return
		}
		defer s.Close()
		b, err := s.Next(t.Context())
		if err != nil {
			if err == io.EOF && from.Offset != int64(len(text)) && !s.Done() {
				t.Errorf("the end at %d", from.Offset)
			}
			return
		}
		if b.Offset != from.Offset || text[b.Offset:] != string(b.Data) {
			t.Errorf("%q at %d, from %d", b.Data, b.Offset, from.Offset)
		}
	})
}
