package sqlite_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/sink/sqlite"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// fault runs the steps child under strace with the nth of some calls failing, and returns the child's output; happened
// reports whether the fault occurred.
func fault(t *testing.T, f *file, upTo int, calls, inject string) (out string, code int, happened bool) {
	t.Helper()
	run, trace := program(t, "steps", []string{"-e", "trace=" + calls, "-e", "inject=" + calls + ":" + inject}, f.path, string(sink.Full), fmt.Sprint(upTo))
	if run.Log() != "" {
		t.Errorf("the child said: %s", run.Log())
	}
	return run.Out(), run.Wait(), strings.Contains(trace, "(INJECTED)") || strings.Contains(trace, "killed by SIGKILL")
}

// resume runs the child to the end without faults.
func resume(t *testing.T, f *file, upTo int) {
	t.Helper()
	run, _ := program(t, "steps", nil, f.path, string(sink.Full), fmt.Sprint(upTo))
	run.Exit(0)
	if n := checkSteps(t, f); n != int64(upTo) {
		t.Fatalf("%d flushes are in the file, want %d", n, upTo)
	}
}

func acked(out string) (n int64) {
	for _, l := range lines(out, "acked") {
		fmt.Sscanf(l, "acked %d", &n)
	}
	return n
}

// TestFlush_CommitThatFailedAndYetHappened makes the nth fsync fail, for every n of a short run. SQLite then reports
// that the COMMIT failed, but it may have succeeded: the file is reopened and checked, and the flush is applied once.
//
// Without a WAL, the COMMIT has succeeded if the journal is gone and only its folder could not be synced. With a WAL,
// it has if the fsync on closing fails as well; otherwise SQLite removes the log with the failed transaction.
func TestFlush_CommitThatFailedAndYetHappened(t *testing.T) {
	t.Run("journal", func(t *testing.T) { failedCommits(t, "delete", 1) })
	t.Run("wal", func(t *testing.T) { failedCommits(t, "wal", 1) })
	t.Run("wal twice", func(t *testing.T) { failedCommits(t, "wal", 2) })
}

// failedCommits makes this many calls in a row fail.
func failedCommits(t *testing.T, mode string, inARow int) {
	const flushes = 5
	yet, failed := 0, 0
	for n := 1; ; n++ {
		if n > 60 {
			t.Fatal("the calls have no end")
		}
		f := tempFile(t)
		if mode == "delete" {
			f.Exec(t, "CREATE TABLE theirs (a)")
			f.db.Close()
			f = newFile(t, f.path)
		}
		calls := fmt.Sprintf("%d..%d", n, n+inARow-1)
		out, code, happened := fault(t, f, flushes, "fsync,fdatasync", "error=EIO:when="+calls)
		if !happened {
			if n < flushes {
				t.Fatalf("did not exercise: only %d calls in %d flushes", n-1, flushes)
			}
			break
		}
		found := checkSteps(t, f)
		if a := acked(out); found < a {
			t.Errorf("fsync %s: %d flushes were acked, %d are in the file\n%s", calls, a, found, out)
		}
		retries, again := len(lines(out, "retry")), len(lines(out, "again"))
		if retries > 0 && code != 0 && !strings.Contains(out, "error close") {
			t.Errorf("fsync %s: the failure was not survived:\n%s", calls, out)
		}
		failed += retries
		if retries > again {
			yet++
		}
		for _, l := range lines(out, "acked") {
			if !strings.HasSuffix(l, " 100") {
				t.Errorf("fsync %s: the counts differ from the flush that was committed: %s", calls, l)
			}
		}
		resume(t, f, flushes)
	}
	t.Logf("%d COMMITs failed, %d of them had happened", failed, yet)
	if failed < 3 || yet == 0 && (mode == "delete" || inARow > 1) {
		t.Error("did not exercise: none of the COMMITs that failed had happened")
	}
}

// TestFlush_DiskThatGoesOnFailing: if fsync never works again, nothing is acked as committed for long. The run ends
// after a few tries, long before --retry-for.
func TestFlush_DiskThatGoesOnFailing(t *testing.T) {
	const flushes = 40
	for _, n := range []int{5, 8, 9, 11, 12} {
		t.Run(fmt.Sprint("from fsync ", n), func(t *testing.T) {
			f := tempFile(t)
			out, code, happened := fault(t, f, flushes, "fsync,fdatasync", fmt.Sprintf("error=EIO:when=%d+", n))
			if !happened || code != 1 {
				t.Errorf("the fault happened: %v; exit %d", happened, code)
			}
			found, a := checkSteps(t, f), acked(out)
			if found < a {
				t.Errorf("%d flushes were acked, %d are in the file", a, found)
			}
			if a > 8 { // at most n fsyncs worked, the first four before any flush
				t.Errorf("%d flushes of %d were acked by a disk on which no fsync works", a, flushes)
			}
			resume(t, f, flushes+2)
		})
	}
}

// TestFlush_DiskFull: nothing is half-written, the error says what to do, and the next run resumes.
func TestFlush_DiskFull(t *testing.T) {
	const flushes = 4
	inFlush := 0
	for n := 1; n < 200; n += 7 {
		f := tempFile(t)
		out, code, happened := fault(t, f, flushes, "pwrite64,ftruncate", fmt.Sprintf("error=ENOSPC:when=%d+", n))
		if !happened {
			break
		}
		if code != 1 {
			t.Errorf("write %d: exit %d\n%s", n, code, out)
		}
		if strings.Contains(out, "flush ") {
			inFlush++
			if !strings.Contains(out, "free some space") || !strings.Contains(out, "retry disk_full") {
				t.Errorf("write %d: %s", n, out)
			}
		}
		if a, found := acked(out), checkSteps(t, f); found != a {
			t.Errorf("write %d: %d flushes were acked, %d are in the file\n%s", n, a, found, out)
		}
		resume(t, f, flushes)
	}
	if inFlush == 0 {
		t.Error("did not exercise: no flush met the full disk")
	}
}

// TestFlush_KilledAtEveryCall kills the process at its nth write or fsync: each batch is in the file completely or not
// at all.
func TestFlush_KilledAtEveryCall(t *testing.T) {
	const flushes = 4
	kills, partly := 0, 0
	for n := 1; ; n += 2 {
		f := tempFile(t)
		out, _, happened := fault(t, f, flushes, "pwrite64,fsync,fdatasync", fmt.Sprintf("signal=KILL:when=%d", n))
		if !happened {
			break
		}
		kills++
		a, found := acked(out), checkSteps(t, f)
		if found < a || found > a+1 {
			t.Errorf("call %d: %d flushes were acked, %d are in the file", n, a, found)
		}
		if a > 0 && a < flushes {
			partly++
		}
		resume(t, f, flushes)
	}
	if kills < 20 || partly < 5 {
		t.Errorf("did not exercise: %d kills, %d of them between the first flush and the last", kills, partly)
	}
	t.Logf("%d kills, %d of them between the first flush and the last", kills, partly)
}

// TestSync_FileIsOpenedBySQLiteAlone: if other code in the process opens and closes the file, closing it releases the
// process's locks.
func TestSync_FileIsOpenedBySQLiteAlone(t *testing.T) {
	dir := t.TempDir()
	db, feed := filepath.Join(dir, "t.db"), write(t, filepath.Join(dir, "t.jsonl"), strings.Repeat("{\"id\":1,\"a\":\"x\"}\nbad\n", 50))
	opens := regexp.MustCompile(`open(?:at2?)?\(.*"` + regexp.QuoteMeta(db) + `".*`)
	for _, args := range [][]string{
		{"sync", feed, "--to", db, "--batch-rows", "1"},
		{"sync", feed, "--to", db, "--restart=reread"},
		{"sync", feed, "--to", db, "--dry-run"},
		{"status", "--to", db},
		{"rejects", "--to", db},
		{"status", "--to", db},
	} {
		run, trace := program(t, "weir", []string{"-e", "trace=open,openat,openat2"}, args...)
		if code := run.Wait(); code != 0 && code != 3 {
			t.Fatalf("%v ended with %d: %s", args, code, run.Log())
		}
		found := opens.FindAllString(trace, -1)
		if len(found) == 0 {
			t.Errorf("did not exercise: %v never opens the file", args)
		}
		for _, call := range found {
			if !strings.Contains(call, "O_NOFOLLOW") { // SQLite sets it, Go does not
				t.Errorf("%v: not SQLite's: %s", args, call)
			}
		}
	}
}

// TestFlush_LocksSurviveAnotherOpenOfTheFile opens and closes the file in the process in the middle of a transaction,
// while another process tries to write.
func TestFlush_LocksSurviveAnotherOpenOfTheFile(t *testing.T) {
	for _, mode := range []string{"wal", "delete"} {
		f := tempFile(t, "PRAGMA journal_mode="+mode, "CREATE TABLE theirs (a)")
		s := mustSteps(t, open(t, f.path, sqlite.Options{}), 10)
		s.mustNext(t, 1)
		tried := func() string { run, _ := program(t, "lock", nil, f.path); return strings.TrimSpace(run.Out()) }
		s.before = func() error {
			if _, err := os.ReadFile(f.path); err != nil {
				t.Error(err)
			}
			if got := tried(); got != "locked" {
				t.Errorf("%s: another process wrote into our transaction: %q", mode, got)
			}
			return nil
		}
		s.mustNext(t, 1)
		if got := tried(); got != "free" {
			t.Errorf("%s: the lock was not released: %q", mode, got)
		}
		checkSteps(t, f)
	}
}

// TestFlush_DiskFullAmongRows: SQLite then ends the transaction by itself, as a constraint can.
func TestFlush_DiskFullAmongRows(t *testing.T) {
	r := sinktest.Begin(t, tempFile(t))
	r.Flush(`{"id":0,"v":"x"}`)
	var many []string
	for i := range 200 {
		many = append(many, fmt.Sprintf(`{"id":%d,"v":"%01000d"}`, i, i))
	}
	pragma := func(setting string) {
		_, err := r.Sink.(*sqlite.DB).Pragma(setting)
		testcheck.NoError(t, err)
	}
	pragma("max_page_count = 20")
	before := r.Checkpoint()
	_, err := r.TryFlush(many...)
	if e := (*sink.Error)(nil); !errors.As(err, &e) || e.Class != sink.Transient || e.Reason != sink.DiskFull {
		t.Errorf("the error is %v", err)
	}
	pragma("max_page_count = 2000")
	r.Reread(before)
	sinktest.Counts(t, r.Flush(many...), 199, 1, 0, 0)
}
