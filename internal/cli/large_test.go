package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/test/testcheck"
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
func flushing(l *testweir.Folder, run *testweir.Run) (sent int) {
	l.Helper()
	var status struct {
		Flushing struct {
			Sent int `json:"rows_sent"`
		}
	}
	l.Check(json.Unmarshal([]byte(run.Get("/api/status")), &status))
	return status.Flushing.Sent
}

// inTheMiddle waits until a flush has sent about half of the large feed.
func inTheMiddle(l *testweir.Folder, run *testweir.Run) {
	l.Helper()
	l.Until("the middle of the flush", func() bool {
		sent := flushing(l, run)
		return sent > large/4
	})
	if sent := flushing(l, run); sent == 0 || sent > large*3/4 {
		l.Fatalf("did not exercise: %d rows are sent", sent)
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
