package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/testcheck"
	"github.com/weirsync/weir/internal/testpg"
)

const large = 1_000_000 // rows of a flush

// largeFeed writes lines that are one flush of some rows, which some messages share: else there would be several. A column
// adds up to a sum.
func (l *live) largeFeed(rows int) (sum string) {
	l.t.Helper()
	var b bytes.Buffer
	for i := range rows {
		id := i * 7919 % rows
		fmt.Fprintf(&b, `{"id":%d,"a":%d}`+"\n"+`{"id":%d,"b":"%060d"}`+"\n", id, i, id, i)
	}
	l.check(os.WriteFile(filepath.Join(l.dir, "feed.jsonl"), b.Bytes(), 0o600))
	return fmt.Sprint(int64(rows) * int64(rows-1) / 2)
}

// flushing is what a run says of the flush that is under way.
func (l *live) flushing(name string) (rows, sent int) {
	l.t.Helper()
	var status struct {
		Flushing struct {
			Rows int
			Sent int `json:"rows_sent"`
		}
	}
	l.check(json.Unmarshal([]byte(l.get(name, "/api/status")), &status))
	return status.Flushing.Rows, status.Flushing.Sent
}

// inTheMiddle waits until a flush has sent about half of the large feed.
func (l *live) inTheMiddle(name string) {
	l.t.Helper()
	l.until("the middle of the flush", func() bool {
		_, sent := l.flushing(name)
		return sent > large/4
	})
	if _, sent := l.flushing(name); sent == 0 || sent > large*3/4 {
		l.t.Fatalf("did not exercise: %d rows are sent", sent)
	}
}

// A stopped run says what it waits for; a second signal ends it at once, and the next run resumes.
func TestSignal_SaysWhichFlushItWaitsFor(t *testing.T) {
	for kind, to := range map[string]string{"sqlite": "t.db", "postgres": testpg.New(t)} {
		t.Run(kind, func(t *testing.T) {
			l := newLive(t, to)
			feed, sync := filepath.Join(l.dir, "feed.jsonl"), []string{"sync", "feed.jsonl", "--follow", "--table", "t", "--to", l.to, "--metrics-addr", "127.0.0.1:0"}
			l.check(os.WriteFile(feed, []byte(`{"id":1}`+"\n"), 0o600))
			run, has := l.start("sync", sync...), func(rows string) func() bool {
				return func() bool { return l.ask("SELECT count(*) FROM t") == rows }
			}
			l.until("the first row", has("1"))
			db := l.open("rw")
			defer db.Close()
			lock, err := db.Conn(t.Context())
			l.check(err)
			defer lock.Close()
			begin, says := "BEGIN IMMEDIATE", "writing 1 row, 0 sent"
			if kind == "postgres" {
				begin, says = "BEGIN; LOCK TABLE t IN SHARE MODE", "writing 1 row, all sent"
			}
			_, err = lock.ExecContext(t.Context(), begin)
			l.check(err)
			l.check(os.WriteFile(feed, []byte(`{"id":1}`+"\n"+`{"id":2}`+"\n"), 0o600))
			l.until("the flush", func() bool { rows, _ := l.flushing("sync"); return rows == 1 })
			if m := l.scrape("sync"); !strings.Contains(m, "\nweir_flush_rows{weir_job=\"t\"} 1\n") || !strings.Contains(m, "\nweir_flush_sent_rows{") {
				t.Error("its rows are no metric")
			}
			l.check(run.Process.Signal(syscall.SIGTERM))
			l.waitFor("sync", "stopping when this is done: "+says+"; a second signal ends the run at once\n")
			ended := make(chan error, 1)
			go func() { ended <- run.Wait() }()
			for running := true; running; {
				select {
				case <-ended:
					running = false
				case <-time.After(50 * time.Millisecond):
					_ = run.Process.Signal(syscall.SIGTERM) // it may have ended
				}
			}
			if code := run.ProcessState.ExitCode(); code != 143 {
				t.Errorf("exit code %d", code)
			}
			_, err = lock.ExecContext(t.Context(), "ROLLBACK")
			l.check(err)
			l.start("again", sync...)
			l.until("the second row", has("2"))
		})
	}
}

// A run that ends in the middle of a large flush has written nothing of it, and the next one writes all of it; after the
// first signal it writes all of it itself.
func TestLargeFlush_EndedInTheMiddle(t *testing.T) {
	testcheck.Only(t)
	signal := func(s syscall.Signal) func(*live, *exec.Cmd) {
		return func(l *live, run *exec.Cmd) { l.check(run.Process.Signal(s)) }
	}
	for how, end := range map[string]func(*live, *exec.Cmd){
		"killed": signal(syscall.SIGKILL),
		"killed when all is sent": func(l *live, run *exec.Cmd) {
			l.until("all rows are sent", func() bool { _, sent := l.flushing("sync"); return sent == large })
			signal(syscall.SIGKILL)(l, run)
		},
		"stopped": signal(syscall.SIGTERM),
		"stopped twice": func(l *live, run *exec.Cmd) {
			signal(syscall.SIGTERM)(l, run)
			l.waitFor("sync", "stopping when this is done: writing 1,000,000 rows, ")
			time.Sleep(300 * time.Millisecond) // right after the first it would be the same one
			signal(syscall.SIGTERM)(l, run)
		},
	} {
		for _, kind := range []string{"sqlite", "postgres"} {
			t.Run(kind+", "+how, func(t *testing.T) {
				l := newLive(t, "t.db")
				if kind == "postgres" {
					l.to = testpg.New(t)
				}
				sum := l.largeFeed(large)
				sync := []string{"sync", "feed.jsonl", "--table", "t", "--to", l.to, "--buffer", "1GiB", "--metrics-addr", "127.0.0.1:0"}
				run := l.start("sync", sync...)
				l.inTheMiddle("sync")
				end(l, run)
				_ = run.Wait() // its exit code tells
				code, has := run.ProcessState.ExitCode(), func() string { return l.ask("SELECT count(*), sum(a) FROM t") }
				if how == "stopped" {
					if got := has(); code != 143 || got != fmt.Sprint(large)+"|"+sum {
						t.Errorf("exit code %d, and the table has %s:\n%s", code, got, l.log("sync"))
					}
					return
				}
				if want := map[bool]int{true: 143, false: -1}[how == "stopped twice"]; code != want {
					t.Errorf("exit code %d, want %d", code, want)
				}
				t.Logf("after it the table has: %s", has())
				if again := l.start("again", sync...); again.Wait() != nil || has() != fmt.Sprint(large)+"|"+sum {
					t.Errorf("then it has %s:\n%s", has(), l.log("again"))
				}
				if batches := l.ask("SELECT seq FROM weir_checkpoints"); batches != "1" {
					t.Errorf("it was written in %s flushes", batches)
				}
			})
		}
	}
}

// The write-ahead log of SQLite is short again after a large flush, and stays so.
func TestLargeFlush_LogIsShortAfterIt(t *testing.T) {
	testcheck.Only(t)
	const most = 64 << 20
	l := newLive(t, "t.db")
	l.largeFeed(large)
	logged := func() int64 {
		fi, err := os.Stat(filepath.Join(l.dir, "t.db-wal"))
		l.check(err)
		return fi.Size()
	}
	l.start("sync", "sync", "feed.jsonl", "--follow", "--table", "t", "--to", l.to, "--batch-period", "100ms", "--buffer", "1GiB", "--metrics-addr", "127.0.0.1:0")
	longest := int64(0)
	l.until("the large flush", func() bool {
		if rows, _ := l.flushing("sync"); rows > 0 {
			longest = max(longest, logged())
		}
		return l.ask("SELECT count(*) FROM t") == fmt.Sprint(large)
	})
	l.until("the end of the flush", func() bool { rows, _ := l.flushing("sync"); return rows == 0 })
	after := logged()
	feed, err := os.OpenFile(filepath.Join(l.dir, "feed.jsonl"), os.O_APPEND|os.O_WRONLY, 0o600)
	l.check(err)
	defer feed.Close()
	for n := large; n < large+10; n++ {
		_, err := fmt.Fprintf(feed, `{"id":%d}`+"\n", n)
		l.check(err)
		l.until("one row more", func() bool { return l.ask("SELECT count(*) FROM t") == fmt.Sprint(n+1) })
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
			l := newLive(t, "disk/t.db")
			disk := filepath.Join(l.dir, "disk")
			query := "SELECT count(*), sum(a) FROM t"
			if kind == "postgres" { // whose own log is elsewhere: without it the server ends
				server := testpg.Start(t)
				disk = server.Folder(t)
				smallDisk(t, disk, 60)
				server.Own(t, disk)
				l.to = server.Database(t)
				db := l.database()
				_, err := db.Exec("CREATE TABLESPACE small LOCATION '" + disk + "'")
				l.check(err)
				l.check(db.Close())
				l.to = server.Database(t, "TABLESPACE small")
			} else {
				l.check(os.Mkdir(disk, 0o700))
				smallDisk(t, disk, 60)
			}
			l.check(os.WriteFile(filepath.Join(l.dir, "feed.jsonl"), []byte(`{"id":1,"a":2,"b":"x"}`+"\n"), 0o600))
			sync := []string{"sync", "feed.jsonl", "--table", "t", "--to", l.to, "--buffer", "1GiB", "--job", "j"}
			if first := l.start("first", sync...); first.Wait() != nil || l.ask(query) != "1|2" {
				t.Fatalf("%s\n%s", l.ask(query), l.log("first"))
			}
			sum := l.largeFeed(large)
			sync = append(sync, "--from-start")
			full := l.start("full", sync...)
			if _ = full.Wait(); full.ProcessState.ExitCode() != 1 || l.ask(query) != "1|2" {
				t.Errorf("exit code %d; the table has %s:\n%s", full.ProcessState.ExitCode(), l.ask(query), l.log("full"))
			}
			l.check(exec.Command("mount", "-o", "remount,size=1g", disk).Run())
			if again := l.start("again", sync...); again.Wait() != nil || l.ask(query) != fmt.Sprint(large)+"|"+sum {
				t.Errorf("then it has %s:\n%s", l.ask(query), l.log("again"))
			}
		})
	}
}
