package cli_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/test/testcheck"
	"github.com/weirsync/weir/internal/test/testpg"
	"github.com/weirsync/weir/internal/test/testweir"
)

// TestCompatibility: this version can read and continue databases that earlier versions wrote. testdata/compatibility
// has one of each format, as of the end of feed.jsonl. -update writes databases of the current format.
func TestCompatibility(t *testing.T) {
	const fixtures, written = "../../testdata/compatibility", "/written" // the checkpoints have paths in the second folder
	texts := map[string]string{}
	for _, name := range []string{"tables.yaml", "feed.jsonl", "later.jsonl"} {
		text, err := os.ReadFile(filepath.Join(fixtures, name))
		testcheck.NoError(t, err)
		texts[name] = string(text)
	}
	sync := []string{"sync", "feed.jsonl", "--config", "tables.yaml", "--to"}
	folder := func(t *testing.T, to string) *testweir.Folder {
		f := testweir.New(t, to)
		f.Write("tables.yaml", texts["tables.yaml"])
		return f
	}
	for _, kind := range []struct {
		ext  string
		to   func(t *testing.T) string
		save func(f *testweir.Folder) []byte
		load func(f *testweir.Folder, saved []byte)
		more []string // for the first run: in a restored dump, tables have other OIDs
	}{
		{".db.gz", func(*testing.T) string { return "air.db" },
			func(f *testweir.Folder) []byte {
				file, err := os.ReadFile(f.Path(f.To))
				f.Check(err)
				return file
			},
			func(f *testweir.Folder, saved []byte) { f.Write(f.To, string(saved)) }, nil},
		{".sql.gz", func(t *testing.T) string { return testpg.New(t) },
			func(f *testweir.Folder) []byte {
				dump, err := exec.Command(testcheck.Tool(f, "pg_dump"), "--inserts", "--no-owner", f.To).Output()
				f.Check(err)
				return regexp.MustCompile(`(?m)^\\.*\n`).ReplaceAll(dump, nil) // only psql understands these
			},
			func(f *testweir.Folder, saved []byte) { f.Exec(string(saved)) }, []string{"--accept-settings"}},
	} {
		current := filepath.Join(fixtures, fmt.Sprint("format", sink.Format, kind.ext))
		if *testcheck.Update {
			f := folder(t, kind.to(t))
			f.Write("feed.jsonl", texts["feed.jsonl"])
			f.Start(append(sync, f.To)...).Exit(3)
			f.Exec("UPDATE weir_checkpoints SET source = '"+written+"/feed.jsonl'", "UPDATE weir_rejects SET source = '"+written+"/feed.jsonl'")
			var packed bytes.Buffer
			z := gzip.NewWriter(&packed)
			_, err := z.Write(kind.save(f))
			f.Check(err)
			f.Check(z.Close())
			f.Check(os.WriteFile(current, packed.Bytes(), 0o600))
		}
		all, err := filepath.Glob(filepath.Join(fixtures, "*"+kind.ext))
		testcheck.NoError(t, err)
		if !strings.Contains(strings.Join(all, "\n"), current) {
			t.Errorf("%s is missing: -update writes it", current)
		}
		for _, path := range all {
			t.Run(filepath.Base(path), func(t *testing.T) {
				saved := []byte(testcheck.Unzipped(t, path))
				f := folder(t, kind.to(t))
				kind.load(f, saved)
				for _, table := range []string{"weir_checkpoints", "weir_rejects"} {
					f.Exec(fmt.Sprintf("UPDATE %s SET source = replace(source, '%s', '%s')", table, written, f.Dir))
				}
				f.Write("feed.jsonl", texts["feed.jsonl"])
				f.Start(append(append(sync, f.To), kind.more...)...).Exit(0, "0 inserted, 0 updated")
				if text := f.Start("status", "--to", f.To).Out(); !strings.Contains(text, "air") {
					t.Errorf("status does not name the job:\n%s", text)
				}
				f.Write("feed.jsonl", texts["feed.jsonl"]+texts["later.jsonl"])
				f.Start(append(sync, f.To)...).Exit(0, "resuming after line 6")
				f.Start("verify", "feed.jsonl", "--config", "tables.yaml", "--to", f.To).Exit(0)
				f.Has("BA1|tue|99 BA2|tue|many BA5|wed|NULL", "SELECT id, day, seats FROM flights ORDER BY id")
				f.Has("mon|3 tue|5 wed|1", "SELECT day, messages FROM days ORDER BY day")
				f.Has("9", "SELECT count(*) FROM log")
				f.Start("rejects", "drop", "--job", "air", "--to", f.To).Exit(0, "dropped 1 rejected line")
				f.Start("forget", "air", "--to", f.To).Exit(0)
				f.Has("0", "SELECT count(*) FROM weir_checkpoints")
			})
		}
	}
}
