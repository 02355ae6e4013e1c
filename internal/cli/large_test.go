package cli_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/testcheck"
	"github.com/weirsync/weir/internal/testpg"
	"github.com/weirsync/weir/internal/testweir"
)

// twice writes a feed of two equal lines for each row, so that all are one flush, in no order of their keys.
func twice(l *testweir.Folder, name string, rows int, line func(id int) string) {
	l.Helper()
	var b strings.Builder
	for i := range rows {
		text := line(i * 7919 % rows)
		b.WriteString(text + "\n" + text + "\n")
	}
	l.Write(name, b.String())
}

// A large flush into Postgres is the fold of its lines, whatever the rows are and however the server is reached: two feeds
// are loaded, each in one flush.
func TestLargeFlush_IntoPostgres(t *testing.T) {
	testcheck.Only(t)
	const rows = 300_000
	first := func(id int) string { return fmt.Sprintf(`{"id":%d,"a":%d,"v":2,"b":"%030d"}`, id, id, id) }
	change := func(id int) string { return fmt.Sprintf(`{"id":%d,"a":%d,"v":%d}`, id, id+1, 1+id%3) }
	direct := func(_ testing.TB, url string) string { return url }
	for name, way := range map[string]struct {
		second  func(id int) string
		through func(testing.TB, string) string
		config  string
		refused int // rows of the second feed
		flags   []string
	}{
		"all rows change": {second: change},
		"a pooler":        {second: change, through: func(t testing.TB, url string) string { return testpg.Pool(t, url, "transaction") }},
		"a network of 20 ms": {second: change, through: func(t testing.TB, url string) string {
			p := testpg.NewProxy(t, url)
			p.Delay(10 * time.Millisecond) // each way
			return p.URL()
		}},
		"versions of rows":    {second: change, flags: []string{"--version-field", "v", "--version-scope", "row"}},
		"versions of columns": {second: change, flags: []string{"--version-field", "v"}},
		"deletes": {second: func(id int) string {
			if id%2 == 0 {
				return fmt.Sprintf(`{"id":%d,"op":"gone"}`, id)
			}
			return change(id)
		}, flags: []string{"--delete-when", "op=gone"}},
		"child rows": {second: func(id int) string {
			return fmt.Sprintf(`{"id":%d,"items":[{"sku":"x","n":%d},{"sku":"z%d"}]}`, id, id+2, id%3)
		}, config: "tables:\n  t:\n    key: id\n    columns: {id: as integer, a: as integer, b}\n  items: {of: t, each: items, key: sku, columns: {sku, n: as integer}}\n"},
		"rows that are refused": {second: func(id int) string {
			if id%10_000 == 77 {
				return fmt.Sprintf(`{"id":%d,"a":-1}`, id)
			}
			return change(id)
		}, refused: rows / 10_000},
	} {
		t.Run(name, func(t *testing.T) {
			l := testweir.New(t, testpg.New(t))
			twice(l, "first.jsonl", rows, first)
			twice(l, "second.jsonl", rows, way.second)
			if way.config != "" {
				l.Write("weir.yaml", way.config)
				way.flags = append(way.flags, "--config", "weir.yaml")
			} else {
				way.flags = append(way.flags, "--table", "t")
			}
			if way.refused > 0 {
				l.Exec("CREATE TABLE t (id bigint PRIMARY KEY, a bigint CHECK (a >= 0), v bigint, b text)")
			}
			to := direct
			if way.through != nil {
				to = way.through
			}
			url := to(t, l.To)
			sync := func(feed string, code int) {
				start := time.Now()
				run := l.Start(append([]string{"sync", feed, "--to", url, "--buffer", "1GiB", "--summary", "json"}, way.flags...)...)
				run.Exit(code)
				if t.Logf("%s: %.1f s: %s", feed, time.Since(start).Seconds(), run.Out()); code == 0 && !strings.Contains(run.Out(), `"batches":1,`) {
					t.Errorf("did not exercise: %s was not one flush", feed)
				}
			}
			sync("first.jsonl", 0)
			if way.refused > 0 {
				sync("second.jsonl", 3)
				l.Has(fmt.Sprint(2*way.refused), "SELECT count(*) FROM weir_rejects")
				l.Has(fmt.Sprint(rows, "|", way.refused), "SELECT count(*), sum((id % 10000 = 77 AND a = id)::int) FROM t WHERE a = id + 1 OR id % 10000 = 77")
				return
			}
			sync("second.jsonl", 0)
			l.Start(append([]string{"verify", "first.jsonl", "second.jsonl", "--to", l.To}, way.flags...)...).Exit(0)
		})
	}
}
