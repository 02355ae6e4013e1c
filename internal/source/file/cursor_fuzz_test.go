package file_test

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/source/file"
	"github.com/weirsync/weir/internal/source/lines"
)

// Whatever a database gives as a checkpoint, reading resumes at the beginning of a line
// or ends with an error.
func FuzzCursor(f *testing.F) {
	const text = "{\"id\":1}\n{\"id\":2}\n{\"id\":3}\n"
	path := filepath.Join(f.TempDir(), "feed.jsonl")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{`{}`, `{"Offset":9,"HeadLen":0}`, `{"Offset":9,"LastLen":9,"LastSum":1}`, `{"Offset":-1}`, `{"Offset":1e18}`, `{"Offset":9,"HeadLen":-5}`, `{"Offset":27,"FileSize":27}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, mark []byte) {
		var from lines.Position
		_ = json.Unmarshal(mark, &from) // then Open says so
		s, err := file.Open(t.Context(), path, source.Options{}, source.Cursor(mark))
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
