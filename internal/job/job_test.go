package job_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"go.uber.org/goleak"
	_ "modernc.org/sqlite"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/foldtest"
	"github.com/weirsync/weir/internal/job"
	"github.com/weirsync/weir/internal/logtest"
	"github.com/weirsync/weir/internal/progress"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/postgres"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/sink/sqlite"
	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/testpg"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(testpg.Tests{M: m})
}

// destinations are new, empty databases of each kind.
func destinations(t *testing.T) map[string]string {
	t.Helper()
	return map[string]string{"sqlite": filepath.Join(t.TempDir(), "t.db"), "postgres": testpg.New(t)}
}

func isPostgres(dest string) bool { return strings.HasPrefix(dest, "postgres://") }

// openSink opens a database as weir does.
func openSink(t *testing.T, dest string) sink.Sink {
	t.Helper()
	var db sink.Sink
	var err error
	if isPostgres(dest) {
		db, err = postgres.Open(t.Context(), dest, sink.Options{Level: sink.Off, Log: logtest.New(t)})
	} else {
		db, err = sqlite.Open(t.Context(), dest, sqlite.Options{Synchronous: sink.Off, Log: logtest.New(t)})
	}
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// openClaims opens what holds the sources of the job t.
func openClaims(t *testing.T, dest string) sink.Claims {
	t.Helper()
	var claims sink.Claims
	var err error
	if isPostgres(dest) {
		claims, err = postgres.OpenClaims(t.Context(), dest, "t", sink.Options{Log: logtest.New(t)})
	} else {
		claims, err = sqlite.OpenClaims(t.Context(), dest, "t", sqlite.Options{Synchronous: sink.Off, Log: logtest.New(t)})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { claims.Close() })
	return claims
}

// openSQL opens a database as another program does, to read.
func openSQL(t *testing.T, dest string) *sql.DB {
	t.Helper()
	driver := "pgx"
	if !isPostgres(dest) {
		driver, dest = "sqlite", "file:"+dest+"?mode=ro"
	}
	db, err := sql.Open(driver, dest)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

var texts = []string{"", "a", "007", "1.50", " 7", "Zürich", "日本", "😀", `q"u\o`, "tab\tnl\n", "null", "true", "9223372036854775808", "-0", "1e5", "x%s", "'"}

func randomValue(r *rand.Rand, column int) any {
	if r.IntN(8) == 0 {
		return nil
	}
	switch column % 6 {
	case 0:
		return texts[r.IntN(len(texts))]
	case 1:
		return int64(r.IntN(2000) - 1000)
	case 2:
		return r.IntN(2) == 0
	case 3:
		return float64(r.IntN(1000000)) / 1000
	case 4:
		return json.RawMessage([]string{`{"a":[1,{"b":null}]}`, `[]`, `{}`, `[1.0,"x"]`}[r.IntN(4)])
	}
	return randomValue(r, r.IntN(5)) // a column of all kinds
}

// randomFeed makes lines, some of which are no messages.
func randomFeed(r *rand.Rand, n int) []string {
	feed := make([]string, n)
	ids := 1 + r.IntN(n/4+1)
	for i := range feed {
		id := r.IntN(ids)
		var b strings.Builder
		switch r.IntN(4) { // three spellings of one key
		case 0:
			fmt.Fprintf(&b, `{"id":%d`, id)
		case 1:
			fmt.Fprintf(&b, `{"\u0069d":"%d"`, id)
		default:
			fmt.Fprintf(&b, `{"id":"%d"`, id)
		}
		if r.IntN(10) == 0 {
			b.WriteString(`,"op":"delete"`)
		}
		for range r.IntN(6) {
			c := r.IntN(12)
			v, _ := json.Marshal(randomValue(r, c))
			fmt.Fprintf(&b, `,"c %d":%s`, c, v)
		}
		b.WriteByte('}')
		if feed[i] = b.String(); r.IntN(30) == 0 {
			m := feed[i]
			feed[i] = []string{m[:len(m)-1], "nonsense", "[1]", `{"c 1":1}`, `{"id":null}`, m + "}", "{\"id\":\"\xff\"}"}[r.IntN(7)]
		}
	}
	return feed
}

// plainFold is the table that a feed makes, and how many of its lines are bad.
func plainFold(feed []string) (want *foldtest.Table, bad int) {
	want = foldtest.NewTable(foldtest.Rules{Key: []string{"id"}, DeleteField: "op", DeleteValue: "delete", MaxColumns: 500}, foldtest.Limits{})
	for _, line := range feed {
		if want.Apply([]byte(line)) != nil {
			bad++
		}
	}
	return want, bad
}

func write(t *testing.T, path string, feed []string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(strings.Join(feed, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

func run(t *testing.T, dest, feed string, fromStart bool) *progress.Progress {
	t.Helper()
	db := openSink(t, dest)
	defer db.Close()
	claims := openClaims(t, dest)
	defer claims.Close()
	rejects, err := job.ParseRejects("table")
	if err != nil {
		t.Fatal(err)
	}
	p := progress.New("t")
	err = job.Run(t.Context(), job.Config{
		Sources: []string{feed}, Job: "t", BatchRows: 1000, Buffer: 1 << 24, Rejects: rejects, MaxRejects: 1 << 30, FromStart: fromStart,
		Tables: []job.Table{{Name: "t", Fold: fold.Options{Key: []string{"id"}, DeleteField: "op", DeleteValue: "delete", MaxColumns: 500}}},
		Log:    logtest.New(t),
	}, db, claims, p)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// compare checks the table t against the fold, cell by cell.
func compare(t *testing.T, dest string, fold *foldtest.Table) {
	t.Helper()
	compareTable(t, dest, "t", fold)
}

func compareTable(t *testing.T, dest, table string, fold *foldtest.Table) {
	t.Helper()
	want := fold.Rows()
	db := openSQL(t, dest)
	defer db.Close()
	rows, err := db.Query("SELECT * FROM " + table)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	cols, _ := rows.Columns()
	seen := 0
	for rows.Next() {
		values, into := make([]any, len(cols)), make([]any, len(cols))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		got := map[string]any{}
		for i, c := range cols {
			got[c] = values[i]
		}
		seen++
		key := fmt.Sprint(got["id"])
		row, known := want[foldtest.Key(key)]
		if !known {
			t.Errorf("row %q is in the table, not in the fold", key)
			continue
		}
		for c := range row {
			if _, there := got[c]; !there {
				t.Errorf("row %q: no column %q", key, c)
			}
		}
		for c, g := range got {
			if !same(row[c], g) {
				t.Errorf("row %q column %q: the table has %#v, the fold %s", key, c, g, row[c].JSON())
			}
		}
	}
	if seen != len(want) {
		t.Errorf("the table has %d rows, the fold %d", seen, len(want))
	}
}

// same reports whether a cell holds a feed's value: booleans are 1 and 0 or
// words, numbers may be text in a column of mixed kinds.
func same(want foldtest.Value, got any) bool {
	if b, ok := got.([]byte); ok {
		got = string(b)
	}
	text := fmt.Sprint(got)
	switch want.Kind {
	case foldtest.Null:
		return got == nil
	case foldtest.Bool:
		return text == want.Text || text == map[string]string{"true": "1", "false": "0"}[want.Text]
	}
	return want.Is(text)
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

// TestSync_AgainChangesNothing folds the whole feed on top of itself.
func TestSync_AgainChangesNothing(t *testing.T) {
	sinktest.Seeds(t, 10, func(t *testing.T, r *rand.Rand) {
		path := filepath.Join(t.TempDir(), "feed.jsonl")
		write(t, path, randomFeed(r, 300))
		for kind, dest := range destinations(t) {
			t.Run(kind, func(t *testing.T) { again(t, path, dest) })
		}
	})
}

func again(t *testing.T, path, dest string) {
	run(t, dest, path, false)
	p := run(t, dest, path, true)
	if did := p.Snapshot().Tables[0]; did.Inserted+did.Updated+did.Deleted != 0 {
		t.Errorf("%d rows were written again", did.Inserted+did.Updated+did.Deleted)
	}
	if p := run(t, dest, path, false); p.Snapshot().Lines != 0 {
		t.Errorf("a file that is done was read again: %d lines", p.Snapshot().Lines)
	}
}

// TestSync_ServerRestored: a server that does not wait for its disk is killed
// again and again, and what it had acknowledged is read again.
func TestSync_ServerRestored(t *testing.T) {
	s := testpg.Start(t, "fsync=on")
	dest := s.Database(t)
	feed := randomFeed(rand.New(rand.NewPCG(1, 0)), 3000)
	path := filepath.Join(t.TempDir(), "feed.jsonl")
	write(t, path, feed)
	want, bad := plainFold(feed)
	db := openSink(t, dest)
	defer db.Close()
	target := &restoredServer{Sink: sink.Retry(db, time.Minute, func(*sink.Error) {}), t: t, server: s}
	rejects, _ := job.ParseRejects("table")
	behind := 0
	err := job.Run(t.Context(), job.Config{
		Sources: []string{path}, Job: "t", BatchRows: 30, Buffer: 1 << 24, Rejects: rejects, MaxRejects: 1 << 30,
		Tables: []job.Table{{Name: "t", Fold: fold.Options{Key: []string{"id"}, DeleteField: "op", DeleteValue: "delete", MaxColumns: 500}}},
		Log: logtest.To(func(text string) {
			if strings.Contains(text, "was restored to an earlier state") {
				behind++
			}
		})}, target, sink.RetryClaims(openClaims(t, dest), time.Minute, func(*sink.Error) {}), progress.New("t"))
	if err != nil {
		t.Fatal(err)
	}
	if behind != target.kills || behind == 0 {
		t.Errorf("did not exercise: of %d kills the server was restored to an earlier state after %d", target.kills, behind)
	}
	t.Logf("the server was killed %d times and lost commits %d times", target.kills, behind)
	compare(t, dest, want)
	if n := query(t, dest, "SELECT count(*) || ' ' || count(DISTINCT line) FROM weir_rejects"); n != fmt.Sprint(bad, " ", bad) {
		t.Errorf("rejected lines, and different ones: %s, want %d", n, bad)
	}
}

// restoredServer is a sink whose server is killed after some of its flushes.
type restoredServer struct {
	sink.Sink
	t              *testing.T
	server         *testpg.Server
	flushes, kills int
}

func (g *restoredServer) Flush(ctx context.Context, f *sink.Flush) (sink.Result, error) {
	res, err := g.Sink.Flush(ctx, f)
	if g.flushes++; err == nil {
		switch {
		case g.kills < 6 && g.flushes%12 == []int{6, 11}[g.kills%2]: // so that one flush is lost, or several
			g.server.Settle(g.t)
			g.server.Freeze(g.t, "walwriter") // it would write what nobody waits for
		case g.kills < 6 && g.flushes%12 == 0:
			g.server.Kill()
			g.server.Restart(g.t)
			g.kills++
		}
	}
	return res, err
}

// TestSync_PeriodWritesASlowPipe sends lines through a pipe that stays open, and
// expects them in the table before it is closed.
func TestSync_PeriodWritesASlowPipe(t *testing.T) {
	db := openSink(t, filepath.Join(t.TempDir(), "t.db"))
	defer db.Close()
	r, w := io.Pipe()
	flushed := make(chan int, 10)
	p := progress.New("t")
	p.Observe(func(f progress.Flush) { flushed <- f.Rows })
	rejects, _ := job.ParseRejects("table")
	done := make(chan error, 1)
	go func() {
		done <- job.Run(t.Context(), job.Config{Sources: []string{"-"}, Job: "t", BatchRows: 1000, Buffer: 1 << 20, BatchPeriod: 20 * time.Millisecond,
			Rejects: rejects, Source: source.Options{Stdin: r}, Tables: []job.Table{{Name: "t", Fold: fold.Options{Key: []string{"id"}, MaxColumns: 10}}},
			Log: logtest.New(t)}, db, nil, p)
	}()
	for i := range 3 {
		fmt.Fprintf(w, "{\"id\":%d}\n", i)
		select {
		case n := <-flushed:
			if n != 1 {
				t.Errorf("a batch of %d rows", n)
			}
		case <-time.After(2 * time.Minute):
			t.Fatal("the line was not written while the pipe was open")
		}
	}
	w.Close()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
