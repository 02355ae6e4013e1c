package pipeline_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"go.uber.org/goleak"
	_ "modernc.org/sqlite"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/pipeline"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/postgres"
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
		db, err = postgres.Open(t.Context(), dest, postgres.Options{Synchronous: "off", Warn: t.Logf, Debug: func(string, ...any) {}})
	} else {
		db, err = sqlite.Open(t.Context(), dest, sqlite.Options{Synchronous: sqlite.Off, Warn: t.Logf})
	}
	if err != nil {
		t.Fatal(err)
	}
	return db
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

var oneSeed = flag.Uint64("seed", 0, "run the random tests with this seed alone")

// A message of a random feed, and what it does.
type message struct {
	line    string
	key     string
	deletes bool
	fields  []field
	bad     bool
}

type field struct {
	name  string
	value any // nil, bool, int64, float64, string, json.RawMessage
}

// model is the fold in its plainest form.
type model map[string]map[string]any

func (m model) apply(msg message) {
	switch {
	case msg.bad:
	case msg.deletes:
		delete(m, msg.key)
	default:
		row := m[msg.key]
		if row == nil {
			row = map[string]any{}
			m[msg.key] = row
		}
		for _, f := range msg.fields {
			row[f.name] = f.value
		}
	}
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

func randomFeed(r *rand.Rand, n int) []message {
	feed := make([]message, n)
	ids := 1 + r.IntN(n/4+1)
	for i := range feed {
		m := &feed[i]
		id := r.IntN(ids)
		m.key = fmt.Sprint(id)
		var b strings.Builder
		switch r.IntN(4) { // three spellings of one key
		case 0:
			fmt.Fprintf(&b, `{"id":%d`, id)
		case 1:
			fmt.Fprintf(&b, `{"\u0069d":"%d"`, id)
		default:
			fmt.Fprintf(&b, `{"id":"%d"`, id)
		}
		m.fields = append(m.fields, field{"id", m.key})
		if r.IntN(10) == 0 {
			m.deletes = true
			b.WriteString(`,"op":"delete"`)
		}
		for range r.IntN(6) {
			c := r.IntN(12)
			f := field{fmt.Sprintf("c %d", c), randomValue(r, c)}
			m.fields = append(m.fields, f)
			v, _ := json.Marshal(f.value)
			fmt.Fprintf(&b, `,%q:%s`, f.name, v)
		}
		b.WriteByte('}')
		m.line = b.String()
		if r.IntN(30) == 0 {
			m.bad = true
			m.line = []string{m.line[:len(m.line)-1], "nonsense", "[1]", `{"c 1":1}`, `{"id":null}`, m.line + "}", "{\"id\":\"\xff\"}"}[r.IntN(7)]
		}
	}
	return feed
}

func write(t *testing.T, path string, feed []message) {
	t.Helper()
	var b bytes.Buffer
	for _, m := range feed {
		b.WriteString(m.line)
		b.WriteByte('\n')
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// settings of one run; the table must not depend on them.
type settings struct {
	batchRows int
	buffer    int64
	fromStart bool
	// stopAfter ends the run after so many flushes, in the way that stop says.
	stopAfter int
	stop      string
	readAhead string
}

// crash is a sink whose process dies before or after a flush.
type crash struct {
	sink.Sink
	left  int
	after bool
}

var errCrash = fmt.Errorf("crash")

func (c *crash) Flush(ctx context.Context, f *sink.Flush) (sink.Result, error) {
	if c.left--; c.left < 0 && !c.after {
		return sink.Result{}, errCrash
	}
	res, err := c.Sink.Flush(ctx, f)
	if c.left < 0 && err == nil {
		return sink.Result{}, errCrash
	}
	return res, err
}

func run(t *testing.T, dest, feed string, s settings) (*pipeline.Progress, error) {
	t.Helper()
	db := openSink(t, dest)
	defer db.Close()
	rejects, err := pipeline.ParseRejects("table")
	if err != nil {
		t.Fatal(err)
	}
	target := db
	if s.stopAfter > 0 {
		target = &crash{db, s.stopAfter, s.stop == "after"}
	}
	p := pipeline.NewProgress()
	err = pipeline.Run(t.Context(), pipeline.Config{
		Sources: []string{feed}, Table: "t", BatchRows: s.batchRows, Buffer: s.buffer, Rejects: rejects, MaxRejects: 1 << 30, FromStart: s.fromStart,
		Source: source.Options{Warn: func(string) {}},
		Fold:   fold.Options{Key: []string{"id"}, DeleteField: "op", DeleteValue: "delete", MaxColumns: 500},
		Warn:   t.Logf, Info: func(string, ...any) {},
		ReadAhead: s.readAhead, OpenReader: func(context.Context) (pipeline.Reader, error) { return openSink(t, dest).(pipeline.Reader), nil },
	}, target, p)
	return p, err
}

// compare checks the table against the model, cell by cell.
func compare(t *testing.T, dest string, want model) {
	t.Helper()
	db := openSQL(t, dest)
	defer db.Close()
	rows, err := db.Query("SELECT * FROM t")
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
		var key string
		got := map[string]any{}
		for i, c := range cols {
			if got[c] = values[i]; c == "id" {
				key = fmt.Sprint(values[i])
			}
		}
		seen++
		row, known := want[key]
		if !known {
			t.Errorf("row %q is in the table, not in the fold", key)
			continue
		}
		for c := range row {
			// Postgres makes a column when a value gives it a type.
			if _, there := got[c]; !there && (row[c] != nil || !isPostgres(dest)) {
				t.Errorf("row %q: no column %q", key, c)
			}
		}
		for c, g := range got {
			if !same(row[c], g) {
				t.Errorf("row %q column %q: the table has %#v, the fold %#v", key, c, g, row[c])
			}
		}
	}
	if seen != len(want) {
		t.Errorf("the table has %d rows, the fold %d", seen, len(want))
	}
}

// same reports whether a cell holds a feed's value: booleans are 1 and 0 or
// words, numbers may be text in a column of mixed kinds.
func same(want, got any) bool {
	switch w := want.(type) {
	case nil:
		return got == nil
	case bool:
		return got == w || fmt.Sprint(got) == strconv.FormatBool(w) || fmt.Sprint(got) == map[bool]string{true: "1", false: "0"}[w]
	case float64:
		f, err := strconv.ParseFloat(fmt.Sprint(got), 64)
		return err == nil && f == w
	case json.RawMessage:
		if b, ok := got.([]byte); ok {
			got = string(b)
		}
		return got == string(w) || canonical(fmt.Sprint(got)) == canonical(string(w))
	}
	return fmt.Sprint(got) == fmt.Sprint(want)
}

// canonical is JSON as jsonb has it: without the blanks and the order of names.
func canonical(text string) string {
	var v any
	if json.Unmarshal([]byte(text), &v) != nil {
		return text
	}
	b, _ := json.Marshal(v)
	return string(b)
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

func seeds(t *testing.T, n uint64, f func(t *testing.T, r *rand.Rand)) {
	for seed := uint64(1); seed <= n; seed++ {
		if *oneSeed != 0 && seed != *oneSeed {
			continue
		}
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { f(t, rand.New(rand.NewPCG(seed, 0))) })
	}
}

// TestSync_AnySettingsGiveTheFold syncs one random feed under many settings, with
// crashes before and after commits, and expects one table.
func TestSync_AnySettingsGiveTheFold(t *testing.T) {
	seeds(t, 25, func(t *testing.T, r *rand.Rand) {
		feed := randomFeed(r, 50+r.IntN(400))
		want, bad := model{}, 0
		for _, m := range feed {
			want.apply(m)
			if m.bad {
				bad++
			}
		}
		for _, rows := range []int{1, 7, 1000} {
			for kind, dest := range destinations(t) {
				t.Run(fmt.Sprint(kind, rows), func(t *testing.T) { anySettings(t, r, feed, want, bad, rows, dest) })
			}
		}
	})
}

// anySettings syncs a feed with crashes.
func anySettings(t *testing.T, r *rand.Rand, feed []message, want model, bad, rows int, dest string) {
	path := filepath.Join(t.TempDir(), "feed.jsonl")
	write(t, path, feed)
	crashes := 0
	for {
		s := settings{batchRows: rows, buffer: 1 << (14 + r.IntN(10)), stopAfter: 1 + r.IntN(40), stop: []string{"before", "after"}[r.IntN(2)],
			readAhead: []string{pipeline.ReadAheadOff, pipeline.ReadAheadOn}[r.IntN(2)]}
		_, err := run(t, dest, path, s)
		if err == nil {
			break
		}
		if !strings.Contains(err.Error(), "crash") {
			t.Fatal(err)
		}
		crashes++
	}
	if rows == 1 && crashes == 0 {
		t.Error("no run crashed")
	}
	compare(t, dest, want)
	if n := query(t, dest, "SELECT count(*) FROM weir_rejects"); n != fmt.Sprint(bad) {
		t.Errorf("batch rows %d: %s lines were rejected, %d are bad", rows, n, bad)
	}
	if n := query(t, dest, "SELECT count(*) - count(DISTINCT line) FROM weir_rejects"); n != "0" {
		t.Errorf("batch rows %d: lines were rejected twice", rows)
	}
	if got := query(t, dest, "SELECT line FROM weir_checkpoints"); got != fmt.Sprint(len(feed)) {
		t.Errorf("the checkpoint is at line %s of %d", got, len(feed))
	}
}

// TestSync_AgainChangesNothing folds the whole feed on top of itself.
func TestSync_AgainChangesNothing(t *testing.T) {
	seeds(t, 10, func(t *testing.T, r *rand.Rand) {
		path := filepath.Join(t.TempDir(), "feed.jsonl")
		write(t, path, randomFeed(r, 300))
		for kind, dest := range destinations(t) {
			t.Run(kind, func(t *testing.T) { again(t, path, dest) })
		}
	})
}

func again(t *testing.T, path, dest string) {
	if _, err := run(t, dest, path, settings{batchRows: 1000, buffer: 1 << 24}); err != nil {
		t.Fatal(err)
	}
	p, err := run(t, dest, path, settings{batchRows: 1000, buffer: 1 << 24, fromStart: true})
	if err != nil {
		t.Fatal(err)
	}
	if n := p.Inserted.Load() + p.Updated.Load() + p.Deleted.Load(); n != 0 {
		t.Errorf("%d rows were written again", n)
	}
	p, err = run(t, dest, path, settings{batchRows: 1000, buffer: 1 << 24})
	if err != nil || p.Lines.Load() != 0 {
		t.Errorf("a file that is done was read again: %d lines, %v", p.Lines.Load(), err)
	}
}

// TestSync_ServerGoesBack: a server that does not wait for its disk is killed
// again and again, and what it had acknowledged is read again.
func TestSync_ServerGoesBack(t *testing.T) {
	s := testpg.Start(t, "fsync=on")
	dest := s.Database(t)
	feed := randomFeed(rand.New(rand.NewPCG(1, 0)), 3000)
	path := filepath.Join(t.TempDir(), "feed.jsonl")
	write(t, path, feed)
	want, bad := model{}, 0
	for _, m := range feed {
		want.apply(m)
		if m.bad {
			bad++
		}
	}
	db := openSink(t, dest)
	defer db.Close()
	target := &goesBack{Sink: sink.Retry(db, time.Minute, func(*sink.Error) {}), t: t, server: s}
	rejects, _ := pipeline.ParseRejects("table")
	behind := 0
	err := pipeline.Run(t.Context(), pipeline.Config{
		Sources: []string{path}, Table: "t", BatchRows: 30, Buffer: 1 << 24, Rejects: rejects, MaxRejects: 1 << 30, Source: source.Options{Warn: func(string) {}},
		Fold: fold.Options{Key: []string{"id"}, DeleteField: "op", DeleteValue: "delete", MaxColumns: 500},
		Warn: func(format string, args ...any) {
			if strings.Contains(fmt.Sprintf(format, args...), "went back") {
				behind++
			}
		}, Info: t.Logf}, target, pipeline.NewProgress())
	if err != nil {
		t.Fatal(err)
	}
	if behind != target.kills || behind == 0 {
		t.Errorf("did not exercise: of %d kills the server went back after %d", target.kills, behind)
	}
	t.Logf("the server was killed %d times and went back %d times", target.kills, behind)
	compare(t, dest, want)
	if n := query(t, dest, "SELECT count(*) || ' ' || count(DISTINCT line) FROM weir_rejects"); n != fmt.Sprint(bad, " ", bad) {
		t.Errorf("rejected lines, and different ones: %s, want %d", n, bad)
	}
}

// goesBack is a sink whose server is killed after some of its flushes.
type goesBack struct {
	sink.Sink
	t              *testing.T
	server         *testpg.Server
	flushes, kills int
}

func (g *goesBack) Flush(ctx context.Context, f *sink.Flush) (sink.Result, error) {
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
	p := pipeline.NewProgress()
	p.OnFlush = func(rows int, _ time.Duration) { flushed <- rows }
	rejects, _ := pipeline.ParseRejects("table")
	done := make(chan error, 1)
	go func() {
		done <- pipeline.Run(t.Context(), pipeline.Config{Sources: []string{"-"}, Table: "t", BatchRows: 1000, Buffer: 1 << 20, BatchPeriod: 20 * time.Millisecond,
			Rejects: rejects, Source: source.Options{Stdin: r}, Fold: fold.Options{Key: []string{"id"}, MaxColumns: 10},
			Warn: t.Logf, Info: t.Logf}, db, p)
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
