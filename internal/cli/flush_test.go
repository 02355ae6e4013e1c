package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/weirsync/weir/internal/testcheck"
	"github.com/weirsync/weir/internal/testpg"
	"github.com/weirsync/weir/internal/testweir"
)

const large = 1_000_000 // rows of a flush

// largeFeed writes lines that are one flush of some rows, which some messages share: else there would be several. A column
// adds up to a sum.
func largeFeed(l *testweir.Folder, rows int) (sum string) {
	l.Helper()
	var b bytes.Buffer
	for i := range rows {
		id := i * 7919 % rows
		fmt.Fprintf(&b, `{"id":%d,"a":%d}`+"\n"+`{"id":%d,"b":"%060d"}`+"\n", id, i, id, i)
	}
	l.Write("feed.jsonl", b.String())
	return fmt.Sprint(int64(rows) * int64(rows-1) / 2)
}

// flushing is what a run says of the flush that is under way.
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

// A stopped run says what it waits for; a second signal ends it at once, and the next run resumes.
func TestSignal_SaysWhichFlushItWaitsFor(t *testing.T) {
	intoBoth(t, func(t *testing.T, to func(testing.TB) string) {
		l := testweir.New(t, to(t))
		sync := []string{"sync", "feed.jsonl", "--follow", "--table", "t", "--to", l.To, "--metrics-addr", "127.0.0.1:0"}
		l.Write("feed.jsonl", `{"id":1}`+"\n")
		run := l.Start(sync...)
		l.Becomes("1", "SELECT count(*) FROM t")
		db := l.Open(l.To, "rw")
		defer db.Close()
		lock, err := db.Conn(t.Context())
		l.Check(err)
		defer lock.Close()
		begin, says := "BEGIN IMMEDIATE", "writing 1 row, 0 sent"
		if l.To != "t.db" {
			begin, says = "BEGIN; LOCK TABLE t IN SHARE MODE", "writing 1 row, all sent"
		}
		_, err = lock.ExecContext(t.Context(), begin)
		l.Check(err)
		l.Write("feed.jsonl", `{"id":1}`+"\n"+`{"id":2}`+"\n")
		l.Until("the flush", func() bool { rows, _ := flushing(l, run); return rows == 1 })
		if m := run.Get("/metrics"); !strings.Contains(m, "\nweir_flush_rows{weir_job=\"t\"} 1\n") || !strings.Contains(m, "\nweir_flush_sent_rows{") {
			t.Error("its rows are no metric")
		}
		run.Signal(syscall.SIGTERM)
		run.Says("stopping when this is done: " + says + "; a second signal ends the run at once\n")
		l.Until("the end", func() bool {
			run.Signal(syscall.SIGTERM) // right after the first it is the same one
			return run.Ended()
		})
		run.Exit(143)
		_, err = lock.ExecContext(t.Context(), "ROLLBACK")
		l.Check(err)
		l.Start(sync...)
		l.Becomes("2", "SELECT count(*) FROM t")
	})
}

// A run that ends in the middle of a large flush has written nothing of it, and the next one writes all of it; after the
// first signal it writes all of it itself.
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
				run.Signal(syscall.SIGTERM) // those right after the first are the same one
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

// The write-ahead log of SQLite is short again after a large flush, and stays so.
func TestLargeFlush_LogIsShortAfterIt(t *testing.T) {
	testcheck.Only(t)
	const most = 64 << 20
	l := testweir.New(t, "t.db")
	largeFeed(l, large)
	logged := func() int64 {
		fi, err := os.Stat(l.Path("t.db-wal"))
		l.Check(err)
		return fi.Size()
	}
	run := l.Start("sync", "feed.jsonl", "--follow", "--table", "t", "--to", l.To, "--batch-period", "100ms", "--buffer", "1GiB", "--metrics-addr", "127.0.0.1:0")
	longest := int64(0)
	l.Until("the large flush", func() bool {
		if rows, _ := flushing(l, run); rows > 0 {
			longest = max(longest, logged())
		}
		return l.Ask("SELECT count(*) FROM t") == fmt.Sprint(large)
	})
	l.Until("the end of the flush", func() bool { rows, _ := flushing(l, run); return rows == 0 })
	after := logged()
	feed, err := os.OpenFile(l.Path("feed.jsonl"), os.O_APPEND|os.O_WRONLY, 0o600)
	l.Check(err)
	defer feed.Close()
	for n := large; n < large+10; n++ {
		_, err := fmt.Fprintf(feed, `{"id":%d}`+"\n", n)
		l.Check(err)
		l.Becomes(fmt.Sprint(n+1), "SELECT count(*) FROM t")
		after = max(after, logged())
	}
	t.Logf("the log had %d MB during the flush, and at most %d after it", longest>>20, after>>20)
	if longest < most/2 || after > most {
		t.Errorf("it has %d bytes, after %d during the flush", after, longest)
	}
}

// smallDisk has a folder have room for some megabytes.
func smallDisk(t *testing.T, dir string, megabytes int) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED: a small file system takes root to mount")
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%dm", megabytes), "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("NOT TESTED: no tmpfs can be mounted here: %s", out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", dir).Run() })
}

// A disk that is full in the middle of a large flush leaves the table as it was; with more room the same command goes on.
func TestLargeFlush_DiskIsFull(t *testing.T) {
	testcheck.Only(t)
	for _, kind := range []string{"sqlite", "postgres"} {
		t.Run(kind, func(t *testing.T) {
			l := testweir.New(t, "disk/t.db")
			disk := l.Path("disk")
			if kind == "postgres" { // whose own log is elsewhere: without it the server ends
				server := testpg.Start(t)
				disk = server.Folder(t)
				smallDisk(t, disk, 60)
				server.Own(t, disk)
				l.With(server.Database(t)).Exec("CREATE TABLESPACE small LOCATION '" + disk + "'")
				l.To = server.Database(t, "TABLESPACE small")
			} else {
				l.Check(os.Mkdir(disk, 0o700))
				smallDisk(t, disk, 60)
			}
			const query = "SELECT count(*), sum(a) FROM t"
			l.Write("feed.jsonl", `{"id":1,"a":2,"b":"x"}`+"\n")
			sync := []string{"sync", "feed.jsonl", "--table", "t", "--to", l.To, "--buffer", "1GiB", "--job", "j"}
			l.Start(sync...).Exit(0)
			l.Has("1|2", query)
			all := fmt.Sprint(large) + "|" + largeFeed(l, large)
			sync = append(sync, "--from-start")
			l.Start(sync...).Exit(1)
			l.Has("1|2", query)
			l.Check(exec.Command("mount", "-o", "remount,size=1g", disk).Run())
			l.Start(sync...).Exit(0)
			l.Has(all, query)
		})
	}
}
