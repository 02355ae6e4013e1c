package pipeline_test

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"go.uber.org/goleak"
	_ "modernc.org/sqlite"

	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/postgres"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/sink/sqlite"
	"github.com/weirsync/weir/internal/status"
	"github.com/weirsync/weir/internal/test/logtest"
	"github.com/weirsync/weir/internal/test/testcheck"
	"github.com/weirsync/weir/internal/test/testpg"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		benchRows = 5_000
	}
	goleak.VerifyTestMain(testpg.Tests{M: m})
}

func isPostgres(dest string) bool { return strings.HasPrefix(dest, "postgres://") }

func driverOf(dest string) sink.Driver {
	if isPostgres(dest) {
		return postgres.Driver
	}
	return sqlite.Driver
}

// openSink opens a database as weir does.
func openSink(t testing.TB, dest string, level sink.Level) sink.Sink {
	t.Helper()
	db, err := driverOf(dest).Open(t.Context(), dest, sink.Options{Level: level, Log: logtest.New(t)})
	testcheck.NoError(t, err)
	return db
}

// openClaims opens the claims of job t.
func openClaims(t *testing.T, dest string) sink.Claims {
	t.Helper()
	claims, err := driverOf(dest).OpenClaims(t.Context(), dest, "t", sink.Options{Level: sink.Off, Log: logtest.New(t)})
	testcheck.NoError(t, err)
	t.Cleanup(func() { claims.Close() })
	return claims
}

// openSQL opens a database to read, as another program would.
func openSQL(t *testing.T, dest string) *sql.DB {
	t.Helper()
	driver := "pgx"
	if !isPostgres(dest) {
		driver, dest = "sqlite", "file:"+dest+"?mode=ro"
	}
	db, err := sql.Open(driver, dest)
	testcheck.NoError(t, err)
	return db
}

func write(t *testing.T, path string, feed []string) {
	t.Helper()
	testcheck.NoError(t, os.WriteFile(path, []byte(strings.Join(feed, "\n")+"\n"), 0o644))
}

func query(t *testing.T, dest, q string) string {
	t.Helper()
	db := openSQL(t, dest)
	defer db.Close()
	var s sql.NullString
	if err := db.QueryRow(q).Scan(&s); err != nil {
		t.Fatalf("%s: %v", q, err)
	}
	return s.String
}

// has checks the result of a query.
func has(t *testing.T, dest, want, q string) {
	t.Helper()
	if is := query(t, dest, q); is != want {
		t.Errorf("%s: %s, want %s", q, is, want)
	}
}

// both runs a test with each kind of database.
func both(t *testing.T, test func(t *testing.T, dest string)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) { test(t, filepath.Join(t.TempDir(), "t.db")) })
	t.Run("postgres", func(t *testing.T) { test(t, testpg.New(t)) })
}

// nth is a fault of the nth flush.
func nth(n int, fault sinktest.Fault) sinktest.Faults {
	return sinktest.Flushes(func(c sinktest.Call) (f sinktest.Fault) {
		if c.N == n {
			f = fault
		}
		return f
	})
}

// ofTest makes a function that may end the test callable from within a run: it returns an error, so the run ends first.
func ofTest(do func()) error {
	err, ended := errors.New("the test has failed"), make(chan struct{})
	go func() {
		defer close(ended)
		do()
		err = nil
	}()
	<-ended
	return err
}

// TestBatches_ByMemory: a file is folded as far as memory allows. If all rows are new, larger batches would save
// nothing, and batches are written while the file is read.
func TestBatches_ByMemory(t *testing.T) {
	const messages = 240_000
	for name, test := range map[string]struct {
		repeats     int // messages per id
		buffer      int64
		least, most int64 // number of batches
	}{
		"in one batch":                   {2, 1 << 30, 1, 1},
		"all rows are new":               {1, 1 << 30, 2, 3},
		"as much as the buffer may hold": {2, 8 << 20, 2, 20},
	} {
		t.Run(name, func(t *testing.T) {
			feed := make([]string, messages)
			for i := range feed {
				feed[i] = fmt.Sprintf(`{"id":%d,"a":%d}`, i/test.repeats, i)
			}
			dir := t.TempDir()
			path := filepath.Join(dir, "feed.jsonl")
			write(t, path, feed)
			c := configOf(t, path, "fail")
			c.BatchRows, c.BatchPeriod, c.Buffer = 0, 0, test.buffer
			dest := filepath.Join(dir, "t.db")
			p := succeeds(t, c, dest, nil)
			if got := p.Snapshot().Batches; got < test.least || got > test.most {
				t.Errorf("%d batches, want %d to %d", got, test.least, test.most)
			}
			if got, want := query(t, dest, "SELECT count(*) || ' ' || max(a) FROM t"), fmt.Sprint(messages/test.repeats, " ", messages-1); got != want {
				t.Errorf("the table is %s, want %s", got, want)
			}
		})
	}
}

// TestSync_ConstraintAddedMeanwhile: messages that violate a constraint added during the run are found one by one,
// although the current batch has not kept its messages.
func TestSync_ConstraintAddedMeanwhile(t *testing.T) {
	var feed []string
	for i := range 100 {
		feed = append(feed, fmt.Sprintf(`{"id":%d,"n":%d}`, i, i))
	}
	feed = append(feed, `{"id":7,"a":"kept"}`, `{"id":7,"n":3,"a":"lost"}`, `{"id":200,"n":200}`)
	path := filepath.Join(t.TempDir(), "feed.jsonl")
	write(t, path, feed)
	both(t, func(t *testing.T, dest string) {
		again := 0
		c := configOf(t, path, "table")
		c.BatchRows, c.BatchPeriod, c.Log = 10, 0, logtest.To(func(text string) {
			if strings.Contains(text, "reading again") {
				again++
			}
		})
		succeedsUntil(t, c, dest, func(db sink.Sink) sink.Sink { return &addsIndex{Sink: db, t: t, dest: dest} }, never)
		if again != 1 {
			t.Errorf("the source was read again %d times", again)
		}
		has(t, dest, "101 5150", "SELECT count(*) || ' ' || sum(n) FROM t")
		has(t, dest, "7 kept", "SELECT n || ' ' || a FROM t WHERE id = 7")
		has(t, dest, "1 102", "SELECT count(*) || ' ' || max(line) FROM weir_rejects")
	})
}

// execSQL runs a statement as another program would.
func execSQL(t testing.TB, dest, statement string) {
	t.Helper()
	driver := "pgx"
	if !isPostgres(dest) {
		driver = "sqlite"
	}
	db, err := sql.Open(driver, dest)
	testcheck.NoError(t, err)
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Error(err)
	}
}

// addsIndex is a sink that adds a unique index to its table after the third flush.
type addsIndex struct {
	sink.Sink
	t       *testing.T
	dest    string
	flushes int
}

func (a *addsIndex) Flush(ctx context.Context, f *sink.Flush) (sink.Result, error) {
	res, err := a.Sink.Flush(ctx, f)
	if a.flushes++; err == nil && a.flushes == 3 {
		return res, ofTest(func() { execSQL(a.t, a.dest, "CREATE UNIQUE INDEX other ON t (n)") })
	}
	return res, err
}

// TestProgress_Pending: lines are pending until they are committed, even if line numbers restart with another file.
func TestProgress_Pending(t *testing.T) {
	for name, period := range map[string]time.Duration{"committed at once": time.Millisecond, "not at all": time.Hour} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "feed.jsonl")
			for name, text := range map[string]string{path: "{\"id\":1}\nbad\n{\"id\":2}\n\n", path + ".new": "{\"id\":3}\n{\"id\":4}\n"} {
				testcheck.NoError(t, os.WriteFile(name, []byte(text), 0o600))
			}
			c := configOf(t, path, "table")
			c.Source.Follow, c.BatchPeriod = true, period
			pending := func(lines int64) int64 {
				if period == time.Hour {
					return lines
				}
				return 0
			}
			p, err := runUntil(t, c, filepath.Join(t.TempDir(), "t.db"), nil, func(p *status.Progress) bool {
				s := p.Snapshot()
				if s.Lines == 4 && s.Pending == pending(4) {
					_ = os.Rename(path+".new", path) // the second time there is none
				}
				return s.Lines == 6 && s.Pending == pending(6) && s.Lanes[0].Pending == s.Pending
			})
			testcheck.NoError(t, err)
			s := p.Snapshot()
			if s.Pending != 0 || s.Lanes[0].Open || s.Lanes[0].LastMessage.IsZero() || s.Lanes[0].Rejected != 1 || s.Tables[0].Messages != 4 {
				t.Errorf("at the end: %+v", s)
			}
		})
	}
}
