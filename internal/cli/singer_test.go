package cli_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/test/testcheck"
	"github.com/weirsync/weir/internal/test/testweir"
)

// tapped returns what a tap writes for a range of changes: each stream with its schema, and sometimes a state.
func tapped(changes []string, rnd *rand.Rand, from, upto int) string {
	var b strings.Builder
	for _, stream := range []string{"a", "b"} {
		fmt.Fprintf(&b, `{"type":"SCHEMA","stream":%q,"schema":{"type":"object","properties":{"id":{"type":"integer"},"n":{"type":"integer"},"at":{"type":["null","string"],"format":"date-time"}}},"key_properties":["id"]}`+"\n", stream)
	}
	for n := from; n < upto; n++ {
		fmt.Fprintln(&b, changes[n])
		if rnd.IntN(50) == 0 || n == from+20 || n+1 == len(changes) {
			fmt.Fprintf(&b, `{"type":"STATE","value":{"upto":%d}}`+"\n", n+1)
		}
	}
	return b.String()
}

// TestSinger_Killed: targets are killed after they have printed a state, and the tap resumes there. No record before a
// printed state is lost.
func TestSinger_Killed(t *testing.T) {
	testcheck.Only(t)
	t.Parallel()
	intoBoth(t, func(t *testing.T, to func(testing.TB) string) {
		t.Parallel()
		sinktest.Seeds(t, 1, func(t *testing.T, rnd *rand.Rand) {
			f, changes, state := testweir.New(t, to(t)), make([]string, 4000), 0
			for n := range changes { // most rows have few changes, so a later change does not hide a lost one
				more := []string{"", "", "", "", `,"at":null`, `,"_sdc_deleted_at":"2024-01-02T03:04:05Z"`, fmt.Sprintf(`,"at":"2024-01-02 03:04:%02d+00"`, rnd.IntN(60))}[rnd.IntN(7)]
				changes[n] = fmt.Sprintf(`{"type":"RECORD","stream":%q,"record":{"id":%d,"n":%d%s}}`, []string{"a", "b"}[rnd.IntN(2)], rnd.IntN(2000), n, more)
			}
			for kills := 4; state < len(changes); kills-- {
				upto := len(changes)
				if kills > 0 {
					upto = state + 30 + rnd.IntN(600)
				}
				c := f.Command("sync", "--envelope", "singer", "--to", f.To, "--batch-period", "20ms", "--batch-rows", "300", "-q")
				in, err := c.StdinPipe()
				f.Check(err)
				out, printed := io.Pipe()
				c.Stdout = printed
				c.Start()
				go func(text string) {
					if _, err := io.WriteString(in, text); err == nil && kills <= 0 { // otherwise the target is killed
						_ = in.Close()
					}
				}(tapped(changes, rnd, state, upto))
				go func() { c.Wait(); _ = printed.Close() }()
				before := state
				for lines := bufio.NewScanner(out); lines.Scan(); {
					var now struct{ Upto int }
					f.Check(json.Unmarshal(lines.Bytes(), &now))
					if now.Upto <= state {
						t.Errorf("the state %d comes behind %d", now.Upto, state)
					}
					if state = now.Upto; kills > 0 {
						go c.Kill() // it waits until the target's output is read
					}
				}
				if code := c.Wait(); state == before || kills <= 0 && code != 0 {
					t.Fatalf("exit %d, the last state is %d\n%s", code, state, c.Log())
				}
			}
			f.Write("all.jsonl", tapped(changes, rnd, 0, len(changes)))
			f.Start("verify", "all.jsonl", "--envelope", "singer", "--to", f.To).Exit(0)
		})
	})
}

// TestSinger_TargetStreams: each target test stream of the Singer SDK makes the tables that a plain reading of its
// messages makes.
func TestSinger_TargetStreams(t *testing.T) {
	t.Parallel()
	streams := testcheck.Tool(t, "singer_sdk/testing/target_test_streams")
	files, err := filepath.Glob(streams + "/*.singer")
	testcheck.NoError(t, err)
	if len(files) != 20 {
		t.Errorf("there are %d streams, want 20", len(files))
	}
	// A record without its table's key is rejected. A record before its schema ends the run.
	exits := map[string]int{"record_missing_key_property": 3, "record_before_schema": 1}
	intoBoth(t, func(t *testing.T, to func(testing.TB) string) {
		t.Parallel()
		for _, path := range files {
			name := strings.TrimSuffix(filepath.Base(path), ".singer")
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				f, exit := testweir.New(t, to(t)), exits[name]
				lines, err := os.ReadFile(path)
				testcheck.NoError(t, err)
				takes := func(record string) bool { return !strings.Contains(f.To, "://") || !strings.Contains(record, `\u0000`) }
				if exit == 0 && !takes(strings.ReplaceAll(string(lines), `\\u`, "")) {
					exit = 3 // Postgres text cannot contain this character
				}
				f.Start("sync", path, "--envelope", "singer", "--to", f.To).Exit(exit)
				if exit == 1 {
					return
				}
				for table, want := range targetTables(t, string(lines), takes) {
					db := f.Open(f.To, "ro")
					defer func() { _ = db.Close() }()
					cells, err := testweir.Cells(db, fmt.Sprintf(`SELECT "%s" FROM "%s"`, strings.Join(want.columns, `", "`), table))
					f.Check(err)
					var got []string
					for _, row := range cells {
						got = append(got, want.text(row))
					}
					slices.Sort(got)
					if !slices.Equal(got, want.sorted()) {
						t.Errorf("%s has\n%s\nwant\n%s", table, strings.Join(got, "\n"), strings.Join(want.sorted(), "\n"))
					}
				}
			})
		}
	})
}

// A targetTable is the expected content of a table.
type targetTable struct {
	columns []string
	types   map[string]string
	rows    []map[string]any
}

// targetTables reads a stream, without records that a database rejects.
func targetTables(t *testing.T, lines string, takes func(record string) bool) map[string]*targetTable {
	tables, keys := map[string]*targetTable{}, map[string][]string{}
	for line := range strings.Lines(lines) {
		var m struct {
			Type, Stream  string
			KeyProperties []string `json:"key_properties"`
			Schema        struct{ Properties map[string]struct{ Type any } }
			Record        map[string]any
		}
		testcheck.NoError(t, json.Unmarshal([]byte(line), &m))
		table := tables[m.Stream]
		switch {
		case m.Type == "SCHEMA":
			if keys[m.Stream] = m.KeyProperties; table == nil {
				table = &targetTable{types: map[string]string{}}
				tables[m.Stream] = table
			}
			table.columns = slices.Sorted(maps.Keys(m.Schema.Properties))
			for name, p := range m.Schema.Properties {
				table.types[name] = fmt.Sprint(p.Type)
			}
		case m.Type != "RECORD", !takes(strings.ReplaceAll(line, `\\u`, "")):
		default:
			key := keys[m.Stream]
			if slices.ContainsFunc(key, func(k string) bool { return m.Record[k] == nil }) {
				continue
			}
			at := slices.IndexFunc(table.rows, func(r map[string]any) bool {
				return len(key) > 0 && !slices.ContainsFunc(key, func(k string) bool { return r[k] != m.Record[k] })
			})
			if at < 0 {
				at, table.rows = len(table.rows), append(table.rows, map[string]any{})
			}
			maps.Copy(table.rows[at], m.Record)
		}
	}
	maps.DeleteFunc(tables, func(_ string, t *targetTable) bool { return t.rows == nil }) // weir creates a table for its first row
	return tables
}

// text returns a row in a spelling that is the same for all databases.
func (s *targetTable) text(row []any) string {
	values := map[string]any{}
	for i, cell := range row {
		name := s.columns[i]
		switch of := s.types[name]; {
		case strings.Contains(of, "boolean") && cell != nil:
			cell = cell == true || cell == int64(1)
		case strings.Contains(of, "object"), strings.Contains(of, "array"):
			switch text := cell.(type) {
			case string:
				cell = decoded([]byte(text))
			case []byte:
				cell = decoded(text)
			}
		case strings.Contains(of, "number"), strings.Contains(of, "integer"):
			if cell != nil {
				cell, _ = strconv.ParseFloat(fmt.Sprint(cell), 64)
			}
		}
		if cell != nil {
			values[name] = cell
		}
	}
	return fmt.Sprint(values)
}

func decoded(text []byte) (value any) {
	_ = json.Unmarshal(text, &value)
	return value
}

// sorted returns the expected rows, sorted.
func (s *targetTable) sorted() (all []string) {
	for _, r := range s.rows {
		all = append(all, fmt.Sprint(r))
	}
	slices.Sort(all)
	return all
}
