package status_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/status"
)

func TestSnapshot_CountsBySourceAndTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := status.New("flights", "positions")
		a, b := p.Open("tcp://a:1", status.Dialed), p.Open("b.jsonl", status.File)
		a.Read(10, 100, true, time.Unix(5, 0))
		time.Sleep(time.Second)
		b.Read(5, 50, false, time.Time{})
		b.Reject(&fold.Reject{Table: 1, Reason: feed.NotJSON})
		b.Reject(&fold.Reject{Table: -1, Reason: feed.NotJSON})
		a.Committed(8)
		p.Flushed(time.Second, []status.TableCounts{
			{Messages: 8, Coalesced: 2, Rows: status.Rows{Inserted: 4, Updated: 2, Unchanged: 3}}, {Messages: 1, Rows: status.Rows{Deleted: 1}}}, 0)
		s := p.Snapshot()
		if s.Lines != 15 || s.Bytes != 150 || s.Pending != 7 || s.Rejected != 2 || s.Batches != 1 || s.LastFlush.Seconds != 1 || s.LastFlush.Rows != 7 || s.LastFlush.Messages != 9 || !s.LastCommit.Equal(time.Now()) {
			t.Errorf("the run: %+v", s)
		}
		if l := s.Lanes[0]; l.Source != "tcp://a:1" || l.Lines != 10 || l.Pending != 2 || l.Rejected != 0 || time.Since(l.LastMessage.Time) != time.Second || l.LagSeconds == nil || !l.FeedTime.Equal(time.Unix(5, 0)) {
			t.Errorf("the first source: %+v", l)
		}
		if l := s.Lanes[1]; l.Lines != 5 || l.Pending != 5 || l.Rejected != 2 || !l.LastMessage.IsZero() {
			t.Errorf("the second source: %+v", l)
		}
		if one, two := s.Tables[0], s.Tables[1]; one.Rows != (status.Rows{Inserted: 4, Updated: 2, Unchanged: 3}) || one.Coalesced != 2 || two.Deleted != 1 || two.Rejected[feed.NotJSON] != 1 || s.Unassigned[feed.NotJSON] != 1 {
			t.Errorf("the tables: %+v, and none: %v", s.Tables, s.Unassigned)
		}
		if s.Messages != 9 || s.Coalesced != 2 || s.Written() != 7 || s.Committed != 8 || s.Lanes[0].Committed != 8 {
			t.Errorf("all tables: %+v", s.TableCounts)
		}
		b.Reject(&fold.Reject{Table: 1, Reason: feed.NotJSON})
		if s.Tables[1].Rejected[feed.NotJSON] != 1 {
			t.Error("a snapshot changes")
		}
	})
}

// The progress counts ended files, files that an earlier run has begun or finished, and files that are not opened yet.
func TestSnapshot_HowFarTheFilesAre(t *testing.T) {
	p := status.New("t")
	want := func(f status.Files) {
		t.Helper()
		got := p.Snapshot().Files
		if got.SecondsLeft = 0; got != f {
			t.Errorf("%+v, want %+v", got, f)
		}
	}
	want(status.Files{})
	p.SetFiles(map[string]int64{"a": 100, "b": 200, "c": 300, "d": 400, "e": 50})
	want(status.Files{Number: 5, Size: 1050})
	p.SkipFile("e")
	p.SkipFile("no file of the run's")
	want(status.Files{Number: 5, Ended: 1, Offset: 50, Size: 1050, Before: 50})
	open := func(name string, start, size int64) *status.Lane {
		l := p.Open(name, status.File)
		l.Locate(start, func() (int64, int64) { return size, size })
		return l
	}
	open("a", 100, 100).Close() // an earlier run has read it
	want(status.Files{Number: 5, Ended: 2, Offset: 150, Size: 1050, Before: 150})
	b := open("b", 0, 200)
	b.Read(1, 50, true, time.Time{})
	want(status.Files{Number: 5, Ended: 2, Offset: 200, Size: 1050, Before: 150})
	b.Close()
	c := open("c", 100, 310) // it has grown
	c.Read(1, 20, true, time.Time{})
	want(status.Files{Number: 5, Ended: 3, Offset: 470, Size: 1060, Before: 250})
}

func TestSnapshot_FilesLeaveTheirSums(t *testing.T) {
	p := status.New("t")
	file, feed := p.Open("f.jsonl", status.File), p.Open("tcp://a:1", status.Dialed)
	p.SetConnections("tcp://a:1", 1)
	file.Read(3, 30, true, time.Time{})
	file.Locate(0, func() (int64, int64) { return 40, 40 }) // all of it was read ahead
	if l := p.Snapshot().Lanes[0]; l.Offset != 30 || l.Size != 40 {
		t.Errorf("the file while it is read: %+v", l)
	}
	file.Close()
	feed.Close()
	s := p.Snapshot()
	if len(s.Lanes) != 1 || s.Lanes[0].Source != "tcp://a:1" || s.Lanes[0].Open || s.Lanes[0].Connections != 0 || s.Lines != 3 || s.Pending != 3 {
		t.Errorf("%+v", s)
	}
	file.Committed(3) // the flush comes after the end
	if s := p.Snapshot(); s.Pending != 0 {
		t.Errorf("%d lines are pending", s.Pending)
	}
}

// After a rewind, lines that were read but not committed are no longer pending, and lines that are read again are.
func TestSnapshot_PendingAfterRewind(t *testing.T) {
	p := status.New("t")
	l := p.Open("tcp://a:1", status.Dialed)
	l.Read(10, 0, true, time.Time{})
	l.Committed(4)
	l.Close()
	l.Settle(false)
	if s := p.Snapshot(); s.Pending != 0 || s.Lanes[0].Pending != 0 {
		t.Errorf("between: %+v", s)
	}
	l = p.Open("tcp://a:1", status.Dialed)
	l.Read(6, 0, true, time.Time{})
	l.Committed(1)
	if s := p.Snapshot(); s.Lines != 16 || s.Pending != 5 || s.Lanes[0].Pending != 5 || len(s.Lanes) != 1 {
		t.Errorf("after: %+v", s)
	}
}

func TestNotReady(t *testing.T) {
	p := status.New("t")
	want := func(why string) {
		t.Helper()
		if s := p.Snapshot(); s.NotReady != why {
			t.Errorf("%q, want %q", s.NotReady, why)
		}
	}
	want("not reading yet")
	p.Retry(&sink.Error{Reason: "connection"})
	want("waiting for the database (connection)")
	l := p.Open("tcp://a:1", status.Dialed)
	want("not connected to tcp://a:1")
	p.SetConnections("tcp://a:1", 1)
	want("")
	p.Retry(&sink.Error{Reason: "locked"})
	want("waiting for the database (locked)")
	p.Flushed(0, make([]status.TableCounts, 1), 0)
	want("")
	gone := fmt.Errorf("asking: %w", &sink.Error{Class: sink.Transient, Reason: "connection"})
	p.DatabaseProbed(0, gone) // but flushes commit
	want("")
	p.DatabaseProbed(0, gone) // a run that has nothing to write
	want("waiting for the database (connection)")
	p.DatabaseProbed(0, nil)
	want("")
	p.DatabaseProbed(0, gone)
	p.Flushed(0, make([]status.TableCounts, 1), 0)
	want("")
	p.DatabaseProbed(0, &sink.Error{Class: sink.Transient, Reason: "locked"})
	want("")
	p.DatabaseProbed(0, &sink.Error{Class: sink.Permanent, Reason: "permission"})
	want("")
	l.Close() // the feed has ended; the run is about to end
	want("")
}

// TestSnapshot_CommittedLines: a rewind and lines that were read ahead are not committed.
func TestSnapshot_CommittedLines(t *testing.T) {
	p := status.New("t")
	l := p.Open("a", status.File)
	l.Read(10, 0, true, time.Time{})
	l.Committed(4)
	l.Close()
	l.Settle(false)
	l = p.Open("a", status.File)
	l.Read(6, 0, true, time.Time{})
	l.Committed(5)
	l.Close()
	if s := p.Snapshot(); s.Lines != 16 || s.Committed != 9 || s.Pending != 1 {
		t.Errorf("%+v", s.Counts)
	}
	l.Settle(true)
	if s := p.Snapshot(); s.Committed != 10 || s.Pending != 0 {
		t.Errorf("at the end: %+v", s.Counts)
	}
}

// TestSnapshot_RatesOfAnEndedRun cover all of it.
func TestSnapshot_RatesOfAnEndedRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := status.New("t")
		defer p.Watch()()
		l := p.Open("a", status.Waiting)
		l.Read(1000, 0, true, time.Time{})
		time.Sleep(100 * time.Second)
		synctest.Wait()
		if s := p.Snapshot(); s.LinesPerSecond != 0 || s.RateSeconds != 10 {
			t.Errorf("while it runs: %v in %v s", s.LinesPerSecond, s.RateSeconds)
		}
		p.End(nil)
		if s := p.Snapshot(); s.LinesPerSecond != 10 || s.RateSeconds != 100 || s.Seconds != 100 {
			t.Errorf("at the end: %v in %v s", s.LinesPerSecond, s.RateSeconds)
		}
	})
}

// Each reason why reading pauses is a cause of its own, and no cause once reading resumes.
func TestStalls_SayWhatReadingPausesFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := status.New("t")
		for _, cause := range []status.Cause{status.SpoolFull, status.SpoolDiskFull, status.CaptureDiskFull, ""} {
			for second := range 3 {
				p.Pause(cause)
				s := p.Snapshot()
				if all := s.Stalled; (len(all) == 1 && all[0].Cause == cause && time.Since(all[0].Since.Time) == time.Second) != (cause != "" && second == 2) && second != 1 {
					t.Errorf("paused for %q for %d s: %v", cause, second, all)
				}
				time.Sleep(time.Second)
			}
		}
	})
}

// TestStalls_AnOutageIsOne: a flush that waits for the database is not a second stall. Any successful call ends the
// outage.
func TestStalls_AnOutageIsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := status.New("t")
		p.Flushing(1)
		p.Retry(&sink.Error{Reason: "connection"})
		time.Sleep(time.Minute)
		s := p.Snapshot()
		if all := s.Stalled; len(all) != 1 || all[0].String() != "waiting for the database (connection), for 1m0s" {
			t.Errorf("%v", all)
		}
		p.Retry(&sink.Error{Reason: "connection"})
		p.Retry(nil) // the flush's last attempt has succeeded
		if s := p.Snapshot(); len(s.Stalled) > 0 || s.Retries["connection"] != 2 {
			t.Errorf("after it: %v, retries %v", s.Stalled, s.Retries)
		}
	})
}

// TestStalls_ALargeFlushMayTakeLonger than one of a few rows, before the run counts as stalled.
func TestStalls_ALargeFlushMayTakeLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := func(rows int, after time.Duration, want bool) {
			p := status.New("t")
			p.Flushing(rows)
			time.Sleep(after)
			s := p.Snapshot()
			if all := s.Stalled; (len(all) == 1 && all[0].Cause == status.SlowFlush) != want {
				t.Errorf("%d rows, after %v: %v", rows, after, all)
			}
			p.FlushEnded()
			if s := p.Snapshot(); len(s.Stalled) > 0 {
				t.Errorf("after its end: %v", s.Stalled)
			}
		}
		f(1, 9*time.Second, false)
		f(1, 11*time.Second, true)
		f(1_000_000, 200*time.Second, false)
		f(1_000_000, 211*time.Second, true)
	})
}

// TestNote_NamesAreBounded: the first 100 names of a kind are counted one by one. From then on, further names count as
// other, and the first ones keep their names.
func TestNote_NamesAreBounded(t *testing.T) {
	p := status.New("t")
	fresh := 0
	for range 2 {
		for i := range 150 {
			if p.Note(status.Ignored, fmt.Sprintf("f%03d", i), 2) {
				fresh++
			}
		}
	}
	p.Note(status.Mismatched, "f000", 1)
	s := p.Snapshot()
	if n := s.Notes[status.Ignored]; fresh != 101 || len(n) != 101 || n["f000"] != 4 || n["f099"] != 4 || n["other"] != 2*50*2 || s.NoteTexts()[0].Total != 600 {
		t.Errorf("%d were new; counts: %v", fresh, n)
	}
}
