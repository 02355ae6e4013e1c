package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/sink/sqlite"
	"github.com/weirsync/weir/internal/test/testcheck"
	"github.com/weirsync/weir/internal/test/testweir"
)

// steps is the run of a feed whose state is easy to tell from outside: batch k
// sets n to k in every row and rejects one line. At any time
//
//	min(n) = max(n) = flushes of the job = lines rejected.
type steps struct {
	sink   sink.Sink
	folder *sinktest.Folder
	batch  fold.Batch
	cp     sink.Checkpoint
	rows   int
	job    string
	run    string
	before func() error // called before each commit
}

const stepsSource = "steps.jsonl"

func newSteps(ctx context.Context, s sink.Sink, rows int) (*steps, error) {
	st := &steps{sink: s, rows: rows, job: "steps", run: fmt.Sprintf("run-%d-%d", os.Getpid(), time.Now().UnixNano())}
	t, err := sink.Table(ctx, s.Tables, "t", []string{"id"})
	if err != nil {
		return nil, err
	}
	st.folder = sinktest.NewFolder(t, fold.Options{Key: []string{"id"}, Rules: fold.Rules{UnknownFields: fold.AddUnknown, MaxColumns: 10}, Limits: s.Caps().Limits, Log: slog.New(slog.DiscardHandler)}, "")
	return st, nil
}

// next writes the next batch; each of the first seven adds a column.
func (s *steps) next(ctx context.Context) (sink.Result, error) {
	s.cp.Seq++
	for id := range s.rows {
		line := fmt.Sprintf(`{"id":%d,"n":%d,"fill":"%050d","c%d":1}`, id, s.cp.Seq, s.cp.Seq, s.cp.Seq%7)
		s.cp.Line++
		if err := s.folder.Fold(&s.batch, []byte(line), fold.Place{Line: s.cp.Line}); err != nil {
			return sink.Result{}, err
		}
	}
	s.cp.Line++
	bad := fold.NewReject(fold.Place{Line: s.cp.Line}, -1, feed.Errorf(feed.NotJSON, "bad"), []byte("bad"))
	s.folder.Seal(&s.batch)
	defer s.batch.Reset()
	return s.sink.Flush(ctx, &sink.Flush{Batches: []*fold.Batch{&s.batch}, Rejects: []fold.Reject{bad}, Job: s.job, Run: s.run, KeepRejects: true,
		Lanes: []sink.Lane{{Source: stepsSource, Checkpoint: s.cp}},
		BeforeCommit: func([]fold.Reject) error {
			if s.before != nil {
				return s.before()
			}
			return nil
		}})
}

// mustNext writes n batches.
func (s *steps) mustNext(t *testing.T, n int) {
	t.Helper()
	for range n {
		_, err := s.next(t.Context())
		testcheck.NoError(t, err)
	}
}

func mustSteps(t *testing.T, s sink.Sink, rows int) *steps {
	t.Helper()
	st, err := newSteps(t.Context(), s, rows)
	testcheck.NoError(t, err)
	return st
}

// checkSteps checks that the file holds the results of whole batches, each once, and returns how many.
func checkSteps(t *testing.T, f *file) int64 {
	t.Helper()
	sinktest.Expect(t, f, "PRAGMA integrity_check", "ok")
	if tables := f.Query(t, "SELECT name FROM sqlite_schema"); !slices.ContainsFunc(tables, func(row []any) bool { return row[0] == "t" }) {
		if len(tables) > 0 {
			t.Error("there are weir's tables without the first batch")
		}
		return 0
	}
	row := f.Query(t, "SELECT (SELECT seq FROM weir_checkpoints), min(n), max(n), (SELECT count(*) FROM weir_rejects), (SELECT count(DISTINCT line) FROM weir_rejects) FROM t")[0]
	for _, v := range row[1:] {
		if v != row[0] {
			t.Fatalf("flushes, min(n), max(n), rejects and distinct rejects are %v, and not all the same", row)
		}
	}
	return row[0].(int64)
}

// report ends a test binary's program.
func report(err error) {
	if err != nil {
		fmt.Println("error", strings.ReplaceAll(err.Error(), "\n", " "))
		os.Exit(1)
	}
}

// stepsChild writes batches up to the given number, and reports on stdout: "acked 7 …", "retry io", "again 7" if a
// commit is retried.
func stepsChild(path, level, upTo string) error {
	runtime.LockOSThread() // strace counts calls by thread
	last, err := strconv.ParseInt(upTo, 10, 64)
	if err != nil {
		return err
	}
	ctx := context.Background()
	db, err := sqlite.Open(ctx, path, sqlite.Options{Options: sink.Options{Level: sink.Level(level), Log: slog.New(slog.DiscardHandler)}})
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	s, err := newSteps(ctx, sinktest.Retry(db, 10*time.Second, func(e *sink.Error) {
		if e != nil {
			fmt.Println("retry", e.Reason)
		}
	}), 100)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	claims, err := sqlite.OpenClaims(ctx, path, s.job, sink.Options{Level: sink.Level(level), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return fmt.Errorf("claims: %w", err)
	}
	cps, err := claims.Take(ctx, stepsSource)
	if err != nil {
		return fmt.Errorf("claim: %w", err)
	}
	for s.cp = cps[0]; s.cp.Seq < last; {
		calls := 0
		s.before = func() error {
			if calls++; calls > 1 {
				fmt.Println("again", s.cp.Seq)
			}
			return nil
		}
		res, err := s.next(ctx)
		if err != nil {
			return fmt.Errorf("flush %d: %w", s.cp.Seq, err)
		}
		fmt.Println("acked", s.cp.Seq, res.Total().Inserted+res.Total().Updated)
	}
	if err := errors.Join(claims.Close(), db.Close()); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	return nil
}

// program runs one of the test binary's programs to its end, under strace if there are options for it, and returns its
// output.
func program(t *testing.T, name string, strace []string, args ...string) (run *testweir.Run, trace string) {
	t.Helper()
	testcheck.Only(t)
	f := testweir.New(t, "")
	if name != "weir" {
		f.Link(name)
		f.Program = f.Path(name)
	}
	run = f.Command(args...)
	if strace != nil {
		if out, err := exec.Command("strace", "-f", "-qq", "-o", os.DevNull, "true").CombinedOutput(); err != nil {
			testcheck.Missing(t, fmt.Sprintf("strace, which makes system calls fail (Debian: apt install strace): %v: %s", err, out))
		}
		run.Under("strace", append([]string{"-f", "-qq", "-o", f.Path("trace")}, strace...)...)
	}
	run.Start().Wait()
	written, err := os.ReadFile(f.Path("trace"))
	if err != nil && strace != nil {
		t.Fatal(err)
	}
	return run, string(written)
}

// lines returns the lines that begin with a word.
func lines(s, word string) (found []string) {
	for l := range strings.Lines(s) {
		if strings.HasPrefix(l, word+" ") {
			found = append(found, strings.TrimSpace(l))
		}
	}
	return found
}

func write(t *testing.T, path, content string) string {
	t.Helper()
	testcheck.NoError(t, os.WriteFile(path, []byte(content), 0o644))
	return path
}

// lockChild tries to begin a write transaction, and prints "free" or "locked".
func lockChild(path string) error {
	db, err := sql.Open("sqlite", dsn(path)+"?_pragma=busy_timeout(0)")
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.Exec("BEGIN IMMEDIATE; CREATE TABLE intruder (a); ROLLBACK")
	var locked *driver.Error
	switch {
	case err == nil:
		fmt.Println("free")
	case errors.As(err, &locked) && locked.Code()&0xff == lib.SQLITE_BUSY:
		fmt.Println("locked")
	default:
		return err
	}
	return nil
}
