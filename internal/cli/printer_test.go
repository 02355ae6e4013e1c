package cli

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/settings"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/status"
)

func TestStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := status.New("t")
		var stopped os.Signal
		o := &printer{env: &env{stopped: func() os.Signal { return stopped }}}
		defer p.Watch()()
		want := func(s string) {
			t.Helper()
			time.Sleep(time.Second)
			synctest.Wait()
			did := p.Snapshot()
			if got := o.status(&did).String(); got != s {
				t.Errorf("\n%s, want\n%s", got, s)
			}
		}
		want("not reading yet  0 lines  0/s  0 rows")
		p.Retry(&sink.Error{Reason: "connection"})
		want("waiting for the database (connection), for 1s  0 lines  0/s  0 rows")

		file := p.Open("f.jsonl", status.File)
		file.Locate(0, func() (int64, int64) { return 1000, 1000 }) // all of it was read ahead
		file.Read(3000, 250, true, time.Time{})
		want("3,000 lines  1,000/s  25 %  ETA 9s  0 rows")
		file.Reject(&fold.Reject{Table: 0, Reason: feed.NotJSON})
		p.Note(status.NoTable, "type=x", 1200)
		p.Note(status.Ignored, "x", 2)
		p.Flushed(20*time.Millisecond, []status.TableCounts{{Messages: 4, Coalesced: 1, Rows: status.Rows{Inserted: 2, Unchanged: 1}}}, 0)
		p.SetSpool(3e6)
		file.Close()
		want("3,000 lines  750/s  1 rejected  2 without a column  1,200 for no table  spool 2.9 MiB  2 rows  25 % folded  flush 20ms")
		p.SetSpool(0)

		// The feed's timestamps advance by ten minutes in ten seconds; then its clock is ahead.
		live, began := p.Open("tcp://a:1", status.Dialed), time.Now().Add(-time.Hour)
		const is, rows = "0/s  1 rejected  2 without a column  1,200 for no table", "  2 rows  25 % folded  flush 20ms"
		p.SetConnections("tcp://a:1", 1)
		live.Read(0, 0, true, began)
		want("3,000 lines  60" + is + "  lag 1h" + rows)
		time.Sleep(9 * time.Second)
		live.Read(0, 0, true, began.Add(10*time.Minute))
		want("3,000 lines  " + is + "  lag 50m11s" + rows)
		time.Sleep(9 * time.Second)
		live.Read(0, 0, true, began.Add(10*time.Minute+6*time.Second))
		want("3,000 lines  " + is + "  lag 50m15s" + rows)
		p.SetConnections("tcp://a:1", 0)
		want("not connected to tcp://a:1  3,000 lines  " + is + "  lag 50m16s" + rows)
		p.SetConnections("tcp://a:1", 1)
		live.Read(0, 0, true, time.Now().Add(time.Minute))
		want("3,000 lines  " + is + rows)

		// What counts of a topic is its records: the last one may be old.
		topic := p.Open("kafka://c/t/0", status.Partition)
		topic.Partition("t", "0", func() int64 { return 7 }, func() bool { return true })
		topic.Read(0, 0, true, began)
		want("3,000 lines  " + is + "  lag 7 records" + rows)
		topic.Close()
		live.Read(0, 0, true, time.Now().Add(time.Minute))
		stopped = os.Interrupt
		want("stopping (Ctrl-C: at once)  3,000 lines  " + is + rows)
	})
}

func TestStatus_Files(t *testing.T) {
	f := func(files status.Files, want string) {
		t.Helper()
		var s statusParts
		if s.addFiles(&files); s.String() != want {
			t.Errorf("%+v: %q, want %q", files, s, want)
		}
	}
	f(status.Files{}, "")
	f(status.Files{Number: 1, Offset: 500, Size: 1000, SecondsLeft: 10.2}, "50 %  ETA 10s")
	f(status.Files{Number: 2000, Ended: 1000, Offset: 500, Size: 1000, SecondsLeft: 0.4}, "file 1,001 of 2,000  50 %")
	f(status.Files{Number: 2, Ended: 2, Offset: 1000, Size: 1000}, "file 2 of 2  100 %")
}

// The status says what the run is waiting for, and the progress of a long flush.
func TestStatus_SaysWhatItWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := status.New("t")
		want := func(what string) {
			t.Helper()
			s := p.Snapshot()
			if got := strings.TrimSpace(waitsFor(&s) + "  " + writing(&s)); got != what {
				t.Errorf("it waits for %q, want %q", got, what)
			}
		}
		stdin := p.Open("-", status.Waiting)
		want("waiting for lines")
		stdin.Close()
		live := p.Open("tcp://a:1", status.Dialed)
		want("not connected to tcp://a:1")
		p.SetConnections("tcp://a:1", 1)
		want("waiting for lines")
		live.Read(1, 10, true, time.Time{})
		want("")
		p.Retry(&sink.Error{Reason: "locked"})
		time.Sleep(2*time.Minute + 5*time.Second)
		p.Retry(&sink.Error{Reason: "connection"})
		want("waiting for the database (connection), for 2m5s")
		p.Flushed(0, make([]status.TableCounts, 1), 0)
		want("")
		p.Flushing(10_000)
		want("")
		time.Sleep(time.Second)
		want("writing 10,000 rows, 0 sent")
		p.Sent(4120)
		time.Sleep(10 * time.Second)
		want("writing 10,000 rows, 4,120 sent")
		p.Sent(10_000)
		want("writing 10,000 rows, all sent")
		time.Sleep(14 * time.Second)
		want("waiting for a flush to end (another session's lock, or a slow database), for 25s  writing 10,000 rows, all sent")
		p.Searching(sink.Searching{Messages: 12_000, Written: 1200, Rejected: 300})
		want("searching for rejected rows: 1,200 of 12,000 messages written, 300 rejected")
		p.FlushEnded()
		want("")
		live.Close()
		p.Open("tcp-listen://:1", status.Listening)
		want("waiting for senders")
	})
}

// TestStatusLine: output replaces the status line, which is shown again after it.
func TestStatusLine(t *testing.T) {
	var b bytes.Buffer
	l := &statusLine{w: &b}
	log := slog.New(&textHandler{w: l, prefix: logPrefix, level: slog.LevelInfo})
	l.show(statusParts{"one"})
	log.Warn("careful\n  CREATE INDEX\nmore\x1b[2J", "job", "j")
	log.Debug("hidden")
	l.show(statusParts{"two"})
	log.Error("over", hintField, "See it.")
	const clear = "\r\x1b[K"
	if want := clear + "one" + clear + "weir: warning: careful\n  CREATE INDEX\nweir: more�[2J\n" + clear + "two" + clear + "weir: over\nSee it.\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

// A lost connection is logged at once, then once a minute, and when it is back; a lock only if it lasts.
func TestRunLog_Stalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		p := status.New("t")
		l := newRunLog(t.Context(), slog.New(&textHandler{w: &log, level: slog.LevelInfo}), &settings.Plan{})
		defer p.Watch(l.watch)()
		fails := func(reason string, seconds int) { // once a second
			for n := range seconds {
				p.Retry(&sink.Error{Class: sink.Transient, Reason: reason, Err: errors.New("it failed"), Attempt: n + 1})
				time.Sleep(time.Second)
			}
			p.Retry(nil)
			time.Sleep(500 * time.Millisecond)
		}
		says := func(want ...string) {
			t.Helper()
			synctest.Wait()
			if got := strings.TrimSpace(log.String()); got != strings.Join(want, "\n") {
				t.Errorf("it says\n%s\nwant\n%s", got, strings.Join(want, "\n"))
			}
			log.Reset()
		}
		time.Sleep(time.Millisecond) // between two snapshots
		fails("connection", 192)
		const waiting, ended = "waiting for the database (connection)", "stall ended: waiting for the database "
		says("warning: "+waiting+": it failed", "warning: "+waiting+", for 1m0s: it failed", "warning: "+waiting+", for 2m0s: it failed", "warning: "+waiting+", for 3m0s: it failed", ended+"(connection), for 3m12s")
		time.Sleep(time.Minute)
		for range 30 { // in a minute
			fails("connection", 1)
			time.Sleep(500 * time.Millisecond)
		}
		says("warning: "+waiting+": it failed", ended+"(connection), for 1s")
		time.Sleep(time.Minute)
		fails("locked", 9)
		says()
		fails("locked", 12)
		says("warning: waiting for the database (locked), for 10s: it failed", ended+"(locked), for 12s")
		time.Sleep(time.Minute)
		p.DatabaseProbed(0, &sink.Error{Class: sink.Transient, Reason: "connection", Err: errors.New("it failed")}) // by a run that is idle
		time.Sleep(time.Second)
		p.DatabaseProbed(0, nil)
		time.Sleep(time.Second)
		says("warning: "+waiting+": it failed", ended+"(connection), for 1s")
	})
}

// What is not stored is logged when the first of its kind and when further names come up, at most once a minute.
func TestRunLog_Notes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		p := status.New("t")
		p.Describe(status.Run{NoTable: ", no table takes them"})
		l := newRunLog(t.Context(), slog.New(&textHandler{w: &log, level: slog.LevelInfo}), &settings.Plan{Mapping: &mapping.Mapping{File: "weir.yaml"}})
		defer p.Watch(l.watch)()
		for n := range 600 {
			p.Note(status.NoTable, fmt.Sprintf("type=%d", n/200), 1)
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if want := `ignored, no table takes them: "type=0" (1)
ignored, no table takes them: "type=0" (200), "type=1" (1)
ignored, no table takes them: "type=0" (200), "type=1" (200), "type=2" (1)
`; log.String() != want {
			t.Errorf("it says\n%s", log.String())
		}
	})
}

// Without a terminal, an idle run logs a line per minute after its first minute. A JSON log has its figures as fields.
// --quiet logs none.
func TestPrinter_LinesAMinute(t *testing.T) {
	for _, o := range []settings.Output{{LogFormat: settings.JSON}, {Quiet: true}} {
		synctest.Test(t, func(t *testing.T) {
			var log strings.Builder
			e := &env{stderr: &log, log: slog.New(newJSONHandler(&log, slog.LevelInfo)), line: &statusLine{w: &log}, stopped: func() os.Signal { return nil }}
			p := status.New("t")
			p.Open("-", status.Waiting).Read(1234, 10, true, time.Time{})
			out := newPrinter(e, &o)
			stop := p.Watch(out.print)
			time.Sleep(time.Hour)
			stop()
			lines := strings.Split(strings.TrimSpace(log.String()), "\n")
			switch {
			case o.Quiet && log.Len() > 0, !o.Quiet && (len(lines) < 60 || len(lines) > 66):
				t.Errorf("in an hour it said %d lines", len(lines))
			case !o.Quiet && !strings.Contains(lines[0], `"msg":"1,234 lines  `):
				t.Errorf("fields: %s", lines[0])
			}
		})
	}
}
