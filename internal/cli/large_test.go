package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/test/testcheck"
	"github.com/weirsync/weir/internal/test/testpg"
	"github.com/weirsync/weir/internal/test/testweir"
)

const large = 1_000_000 // rows of a flush

// twice writes a feed with two equal lines per row, which all fit into one flush, in random order of keys.
func twice(l *testweir.Folder, name string, rows int, line func(id int) string) {
	l.Helper()
	var b strings.Builder
	for i := range rows {
		text := line(i * 7919 % rows)
		b.WriteString(text + "\n" + text + "\n")
	}
	l.Write(name, b.String())
}

// largeFeed writes such a feed, and returns the sum of column a.
func largeFeed(l *testweir.Folder, rows int) (sum string) {
	l.Helper()
	twice(l, "feed.jsonl", rows, func(id int) string { return fmt.Sprintf(`{"id":%d,"a":%d,"b":"%060d"}`, id, id, id) })
	return fmt.Sprint(int64(rows) * int64(rows-1) / 2)
}

// flushing returns the progress of a run's current flush.
func flushing(l *testweir.Folder, run *testweir.Run) (rows, sent int) {
	l.Helper()
	var status struct {
		Flushing struct {
			Rows int
			Sent int `json:"rows_sent"`
		}
	}
	l.Check(json.Unmarshal([]byte(run.Get("/api/status")), &status))
	return status.Flushing.Rows, status.Flushing.Sent
}

// inTheMiddle waits until a flush has sent about half of the large feed.
func inTheMiddle(l *testweir.Folder, run *testweir.Run) {
	l.Helper()
	l.Until("the middle of the flush", func() bool {
		_, sent := flushing(l, run)
		return sent > large/4
	})
	if _, sent := flushing(l, run); sent == 0 || sent > large*3/4 {
		l.Fatalf("did not exercise: %d rows are sent", sent)
	}
}

// A run that ends in the middle of a large flush has written nothing of it, and the next run writes all of it. After a
// first signal, the run itself writes all of it.
func TestLargeFlush_EndedInTheMiddle(t *testing.T) {
	testcheck.Only(t)
	for how, end := range map[string]func(*testweir.Folder, *testweir.Run){
		"killed": func(_ *testweir.Folder, run *testweir.Run) { run.Kill() },
		"killed when all is sent": func(l *testweir.Folder, run *testweir.Run) {
			l.Until("all rows are sent", func() bool { _, sent := flushing(l, run); return sent == large })
			run.Kill()
		},
		"stopped": func(_ *testweir.Folder, run *testweir.Run) { run.Signal(syscall.SIGTERM) },
		"stopped twice": func(l *testweir.Folder, run *testweir.Run) {
			l.Until("the end", func() bool {
				run.Signal(syscall.SIGTERM) // signals right after the first are ignored
				return run.Ended()
			})
		},
	} {
		t.Run(how, func(t *testing.T) {
			intoBoth(t, func(t *testing.T, to func(testing.TB) string) {
				l := testweir.New(t, to(t))
				all := fmt.Sprint(large) + "|" + largeFeed(l, large)
				sync := []string{"sync", "feed.jsonl", "--table", "t", "--to", l.To, "--buffer", "1GiB", "--metrics-addr", "127.0.0.1:0"}
				run := l.Start(sync...)
				inTheMiddle(l, run)
				end(l, run)
				run.Exit(map[bool]int{true: -1, false: 143}[strings.HasPrefix(how, "killed")])
				const query = "SELECT count(*), sum(a) FROM t"
				if how != "stopped" {
					t.Logf("after it the table has: %s", l.Ask(query))
					l.Start(sync...).Exit(0)
					l.Has("1", "SELECT seq FROM weir_checkpoints")
				}
				l.Has(all, query)
			})
		})
	}
}

// After a large flush, SQLite's write-ahead log becomes short again and stays so. No other process reads the database
// meanwhile, because that would keep the log.
func TestLargeFlush_LogIsShortAfterIt(t *testing.T) {
	testcheck.Only(t)
	const most = 64 << 20
	l := testweir.New(t, "t.db")
	largeFeed(l, large)
	run := l.Start("sync", "feed.jsonl", "--follow", "--table", "t", "--to", l.To, "--batch-period", "100ms", "--buffer", "1GiB", "--metrics-addr", "127.0.0.1:0")
	longest, after, line := int64(0), int64(0), large
	feed, err := os.OpenFile(l.Path("feed.jsonl"), os.O_APPEND|os.O_WRONLY, 0o600)
	l.Check(err)
	defer feed.Close()
	l.Until("ten small flushes after the large one", func() bool {
		var status struct {
			PendingLines int `json:"pending_lines"`
			Lines        int
		}
		l.Check(json.Unmarshal([]byte(run.Get("/api/status")), &status))
		log, err := os.Stat(l.Path("t.db-wal"))
		if err != nil || status.Lines < 2*large || status.PendingLines > 0 {
			if err == nil && line == large {
				longest = max(longest, log.Size())
			}
			return false
		}
		after = max(after, log.Size())
		_, err = fmt.Fprintf(feed, `{"id":%d}`+"\n", line)
		l.Check(err)
		line++
		return line > large+10
	})
	t.Logf("the log had %d MB during the flush, and at most %d after it", longest>>20, after>>20)
	if longest < most/2 || after > most {
		t.Errorf("it has %d bytes, after %d during the flush", after, longest)
	}
}

// A large flush into Postgres is the fold of its lines, for all kinds of rows and connections. Two feeds are loaded,
// each in one flush.
func TestLargeFlush_IntoPostgres(t *testing.T) {
	testcheck.Only(t)
	const rows = 300_000
	first := func(id int) string { return fmt.Sprintf(`{"id":%d,"a":%d,"v":2,"b":"%030d"}`, id, id, id) }
	change := func(id int) string { return fmt.Sprintf(`{"id":%d,"a":%d,"v":%d}`, id, id+1, 1+id%3) }
	for name, way := range map[string]struct {
		second  func(id int) string
		through func(testing.TB, string) string
		config  string
		refused int // rows of the second feed that are rejected
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
			url := l.To
			if way.through != nil {
				url = way.through(t, l.To)
			}
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
