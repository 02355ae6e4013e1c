package job_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/job"
	"github.com/weirsync/weir/internal/logtest"
	"github.com/weirsync/weir/internal/progress"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/spool"
	"github.com/weirsync/weir/internal/testcheck"
)

// A scripted feed sends its nth connection what reply says for the value that it is asked
// to resume after, and leaves the connection open if it stays.
type scripted struct {
	reply func(n int, from string) (text string, stays bool)
	addr  string

	mu    sync.Mutex
	asked []string // by each connection
}

func newScripted(t *testing.T, reply func(n int, from string) (text string, stays bool)) *scripted {
	t.Helper()
	s := &scripted{reply: reply}
	s.addr = accept(t, s.serve)
	return s
}

// accept serves each connection, by its number, and closes it then. It returns where.
func accept(t *testing.T, serve func(n int, conn net.Conn)) (spec string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testcheck.NoError(t, err)
	var serving sync.WaitGroup
	serving.Go(func() {
		for n := 0; ; n++ {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer conn.Close()
				serve(n, conn)
			})
		}
	})
	t.Cleanup(func() { l.Close(); serving.Wait() })
	return "tcp://" + l.Addr().String()
}

func (s *scripted) serve(n int, conn net.Conn) {
	in := bufio.NewReader(conn)
	hello, err := in.ReadString('\n')
	if err != nil {
		return
	}
	from := strings.TrimSpace(strings.TrimPrefix(hello, "from"))
	s.mu.Lock()
	s.asked = append(s.asked, from)
	s.mu.Unlock()
	text, stays := s.reply(n, from)
	if _, err := io.WriteString(conn, text); err == nil && stays {
		_, _ = in.ReadByte() // until the other side goes
	}
}

// was returns what the feed was asked for.
func (s *scripted) was() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.asked...)
}

// behind returns the lines behind the one whose resume value is given.
func behind(lines []string, value string) string {
	for i, line := range lines {
		if value != "" && strings.Contains(line, fmt.Sprintf(`"pitr":%q`, value)) {
			lines = lines[i+1:]
			break
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// configOf is for a source whose messages may have a resume value.
func configOf(t *testing.T, spec, rejects string) job.Config {
	t.Helper()
	r, err := job.ParseRejects(rejects)
	testcheck.NoError(t, err)
	return job.Config{
		Sources: []string{spec}, Source: source.Options{RetryFor: time.Minute, MaxLine: 1000, Poll: 10 * time.Millisecond}, Job: "t",
		Feed:      job.Feed{ResumeField: "pitr", Hello: func(resume string) ([]byte, error) { return []byte("from " + resume + "\n"), nil }},
		Tables:    []job.Table{{Name: "t", Fold: fold.Options{Key: []string{"id"}, MaxColumns: 10}}},
		BatchRows: 1000, BatchPeriod: 20 * time.Millisecond, Buffer: 1 << 20, MaxRejects: 1 << 20, Rejects: r, Log: logtest.New(t),
	}
}

// runUntil runs until something is so, or to the run's own end. through, where it is not
// nil, stands before the database.
func runUntil(t *testing.T, c job.Config, dest string, through func(sink.Sink) sink.Sink, so func(p *progress.Progress) bool) (*progress.Progress, error) {
	t.Helper()
	db := openSink(t, dest, sink.Off)
	defer db.Close()
	claims := openClaims(t, dest)
	defer claims.Close()
	if through != nil {
		db = through(db)
	}
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	names := []string{}
	for i := range c.Tables {
		names = append(names, c.Tables[i].Name)
	}
	p, ended := progress.New(names...), make(chan error, 1)
	go func() { ended <- job.Run(ctx, c, db, claims, p) }()
	for {
		select {
		case err := <-ended:
			if ctx.Err() == context.DeadlineExceeded {
				t.Errorf("it was never so: %d lines", p.Snapshot().Lines)
			}
			return p, err
		case <-time.After(5 * time.Millisecond):
			if so(p) {
				stop()
			}
		}
	}
}

// runToEnd runs until the run's own end, with faults or without.
func runToEnd(t *testing.T, c job.Config, dest string, faults sinktest.Faults) (*progress.Progress, error) {
	t.Helper()
	if faults == nil {
		return runUntil(t, c, dest, nil, never)
	}
	return runUntil(t, c, dest, faulty(faults), never)
}

// succeedsUntil is runUntil for a run that has to succeed, and succeeds is runToEnd.
func succeedsUntil(t *testing.T, c job.Config, dest string, through func(sink.Sink) sink.Sink, so func(p *progress.Progress) bool) *progress.Progress {
	t.Helper()
	p, err := runUntil(t, c, dest, through, so)
	testcheck.NoError(t, err)
	return p
}

func succeeds(t *testing.T, c job.Config, dest string, faults sinktest.Faults) *progress.Progress {
	t.Helper()
	p, err := runToEnd(t, c, dest, faults)
	testcheck.NoError(t, err)
	return p
}

// faulty has a database with faults stand before the one of a run.
func faulty(faults sinktest.Faults) func(sink.Sink) sink.Sink {
	return func(db sink.Sink) sink.Sink { return sinktest.Faulty(db, faults) }
}

func never(*progress.Progress) bool { return false }

func lines(n int64) func(*progress.Progress) bool {
	return func(p *progress.Progress) bool { return p.Snapshot().Lines >= n }
}

const ids = "SELECT group_concat(id, ' ' ORDER BY id) FROM t"

// TestSync_LineThatEndsTheRun: the next run meets the line that a run ended with, wherever it
// comes from. Names that are one to the table end only the run that makes it.
func TestSync_LineThatEndsTheRun(t *testing.T) {
	for name, c := range map[string]struct{ rejects, first, line string }{
		"no message":         {"fail", `{"pitr":"1","id":"a"}`, "bad line"},
		"no key":             {"fail", `{"pitr":"1","id":"a"}`, `{"pitr":"2","x":1}`},
		"too long":           {"fail", `{"pitr":"1","id":"a"}`, strings.Repeat("x", 3000)},
		"names that are one": {"table", `{"pitr":"1","id":"a","col":1}`, `{"pitr":"2","id":"b","COL":1}`},
	} {
		feed := []string{c.first, c.line, `{"pitr":"3","id":"c"}`}
		file := filepath.Join(t.TempDir(), "feed.jsonl")
		testcheck.NoError(t, os.WriteFile(file, []byte(behind(feed, "")), 0o600))
		for kind, spec := range map[string]string{
			"file":       file,
			"connection": newScripted(t, func(_ int, from string) (string, bool) { return behind(feed, from), true }).addr,
		} {
			t.Run(name+", "+kind, func(t *testing.T) {
				dest := filepath.Join(t.TempDir(), "t.db")
				for n := range 2 {
					want := "a"
					if n == 1 && c.rejects == "table" {
						want = "a b c"
					}
					_, err := runUntil(t, configOf(t, spec, c.rejects), dest, nil, lines(2))
					if (err != nil) != (want == "a") || c.rejects == "fail" != errors.Is(err, job.ErrRejected) {
						t.Errorf("run %d: %v", n, err)
					}
					has(t, dest, want, ids)
				}
			})
		}
	}
}

// TestSync_WhatCannotBeReadAgain: a run that would have to read again, and cannot, ends
// and names the lines.
func TestSync_WhatCannotBeReadAgain(t *testing.T) {
	// Before the nth flush the database has lost the last one.
	through := func(n int) func(sink.Sink) sink.Sink {
		return faulty(sinktest.Flushes(func(c sinktest.Call) (f sinktest.Fault) {
			if l := c.Flush.Lanes[0]; c.N == n {
				f.Err = sink.BehindError{Lane: l.Source, Found: l.Checkpoint.Seq - 2, Want: l.Checkpoint.Seq - 1}
			}
			return f
		}))
	}
	t.Run("a feed that is asked for nothing", func(t *testing.T) {
		c := configOf(t, accept(t, func(_ int, conn net.Conn) {
			fmt.Fprint(conn, `{"pitr":"1","id":"a"}`+"\n"+`{"pitr":"2","id":"b"}`+"\n")
			_, _ = conn.Read(make([]byte, 1)) // until the other side goes
		}), "table")
		c.Feed.Hello, c.BatchRows = nil, 1
		if _, err := runUntil(t, c, filepath.Join(t.TempDir(), "t.db"), through(2), never); err == nil || !strings.Contains(err.Error(), "not committed: 2. They") {
			t.Error(err)
		}
	})
	// The second connection counts its lines from 1 again, and brings fewer than the first.
	t.Run("a feed that has reconnected", func(t *testing.T) {
		both := make(chan struct{})
		c := configOf(t, accept(t, func(n int, conn net.Conn) {
			for i := range []int{100, 50}[min(n, 1)] {
				fmt.Fprintf(conn, `{"id":"%d"}`+"\n", 100*n+i)
			}
			if n == 0 {
				<-both // until all is committed
			} else {
				_, _ = conn.Read(make([]byte, 1))
			}
		}), "table")
		c.Feed, c.BatchRows, c.BatchPeriod = job.Feed{}, 50, time.Hour
		var once sync.Once
		_, err := runUntil(t, c, filepath.Join(t.TempDir(), "t.db"), faulty(nth(3, sinktest.Fault{Err: sink.ErrChanged{Err: errors.New("a view was dropped")}})), func(p *progress.Progress) bool {
			if p.Snapshot().Batches == 2 {
				once.Do(func() { close(both) })
			}
			return false
		})
		if err == nil || !strings.Contains(err.Error(), "a view was dropped; lines of "+c.Sources[0]+" that were read and not committed: 50. They are lost unless they are sent again") {
			t.Error(err)
		}
	})
	t.Run("stdin", func(t *testing.T) {
		var feed strings.Builder
		dest := filepath.Join(t.TempDir(), "t.db")
		for n, more := range []int{1000, 50} {
			for i := range more {
				fmt.Fprintf(&feed, `{"id":"%d"}`+"\n", i)
			}
			c := configOf(t, "-", "table")
			c.Job, c.ResumeStdin, c.BatchRows, c.BatchPeriod, c.Source.Stdin = "t", true, 10, time.Hour, strings.NewReader(feed.String())
			_, err := runUntil(t, c, dest, through(4+1000*(1-n)), never)
			if n == 0 && err != nil || n == 1 && (err == nil || !strings.Contains(err.Error(), "lines of stdin that were read and not committed: 30. They")) {
				t.Errorf("run %d: %v", n, err)
			}
		}
	})
}

// TestSync_LostLinesAreCounted: a run that ends with an error says how many lines it has read and not
// committed, also of those that it had not folded yet.
func TestSync_LostLinesAreCounted(t *testing.T) {
	const sent, batch = 20_000, 500
	c := configOf(t, "tcp-listen://127.0.0.1:0", "table")
	c.BatchRows, c.BatchPeriod, c.Buffer = batch, time.Hour, 1<<26
	c.Log = logtest.To(func(text string) {
		if _, addr, ok := strings.Cut(text, "senders connect to "); ok {
			go func() {
				var lines strings.Builder
				for i := range sent {
					fmt.Fprintf(&lines, `{"id":"%d"}`+"\n", i)
				}
				_ = send(addr, []byte(lines.String())) // which the run does not read to its end
			}()
		}
	})
	broken := errors.New("it broke")
	for _, is := range []error{broken, &sink.Error{Class: sink.Unknown, Err: broken}} {
		p, err := runUntil(t, c, filepath.Join(t.TempDir(), "t.db"), faulty(nth(3, sinktest.Fault{Err: is})), never)
		s, perhaps := p.Snapshot(), ""
		if is != broken {
			perhaps = "perhaps "
		}
		lost := s.Lines - 2*batch
		if want := fmt.Sprintf("it broke; lines of tcp-listen://127.0.0.1:0 that were read and %snot committed: %d. They", perhaps, lost); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("of %d lines: %v\nwant %s", s.Lines, err, want)
		}
		if len(s.Stops) != 1 || s.Stops[0].Line != 2*batch || s.Stops[0].Lost != lost || s.Pending != lost || s.Stops[0].Resumes {
			t.Errorf("the source was left at %+v, with %d lines pending, want %d", s.Stops, s.Pending, lost)
		}
	}
}

// A slowFeed waits after each line until that is in the spool, so that no reader has it as a part of a
// larger block.
type slowFeed struct {
	*testing.T
	p atomic.Pointer[progress.Progress]
}

func (f *slowFeed) send(conn io.Writer, lines ...string) {
	for _, line := range lines {
		before := int64(0)
		if p := f.p.Load(); p != nil {
			before = p.Snapshot().Spool
		}
		fmt.Fprintln(conn, line)
		for end := time.Now().Add(time.Minute); f.p.Load() == nil || f.p.Load().Snapshot().Spool < before+int64(len(line))+1; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				f.Error("a line never came into the spool")
				return
			}
		}
	}
}

// TestSpool_StaleKeepalives: a reader behind the spool drops the connection that is stale, though its
// lines come from the disk.
func TestSpool_StaleKeepalives(t *testing.T) {
	slow := &slowFeed{T: t}
	var onDisk atomic.Bool
	again := make(chan bool, 1)
	addr := accept(t, func(n int, conn net.Conn) {
		in := bufio.NewReader(conn)
		_, _ = in.ReadString('\n')
		if n > 0 {
			again <- true
			return
		}
		for i := range 30 {
			slow.send(conn, fmt.Sprintf(`{"pitr":"%d","id":"a"}`, i))
		}
		slow.send(conn, slices.Repeat([]string{`{"pitr":"29","type":"keepalive"}`}, 5)...)
		onDisk.Store(true)
		_, _ = in.ReadByte() // until weir reconnects
	})
	dir := t.TempDir()
	c := configOf(t, addr, "table")
	c.BatchRows = 1
	c.Feed.Keepalive, c.Feed.StaleAfter = job.Match{Field: "type", Value: "keepalive"}, 5
	c.Spool = spool.Folders{Dir: filepath.Join(dir, "spool"), Max: 1 << 20}
	db := newOutage()
	var back sync.Once
	_, err := runUntil(t, c, filepath.Join(dir, "t.db"), faulty(db.faults()), func(p *progress.Progress) bool {
		slow.p.Store(p)
		if onDisk.Load() {
			back.Do(func() { close(db.back) })
		}
		return len(again) > 0
	})
	testcheck.NoError(t, err)
}

// TestSpool_PlacesOfRejects: a rejected line has one place, whether it came from memory, from the disk, or from
// there in a later run.
func TestSpool_PlacesOfRejects(t *testing.T) {
	const lines = 60
	places := func(t *testing.T, lags, breaks bool) string {
		slow := &slowFeed{T: t}
		feed := make([]string, lines)
		for i := range feed {
			feed[i] = fmt.Sprintf(`{"pitr":"%d","id":"a"}`, i)
			if i%7 == 3 {
				feed[i] = fmt.Sprint("bad ", i)
			}
		}
		var onDisk atomic.Bool
		addr := accept(t, func(n int, conn net.Conn) {
			in := bufio.NewReader(conn)
			_, _ = in.ReadString('\n')
			if n == 0 {
				slow.send(conn, feed[:lines/2]...)
				return
			}
			if !onDisk.Load() {
				slow.send(conn, feed[lines/2:]...)
				onDisk.Store(true)
			}
			_, _ = in.ReadByte()
		})
		dir := t.TempDir()
		dest := filepath.Join(dir, "t.db")
		c := configOf(t, addr, "table")
		c.BatchRows, c.BatchPeriod = 1000, time.Minute // the spool's size grows by each line if nothing is committed
		c.Spool = spool.Folders{Dir: filepath.Join(dir, "spool"), Max: 1 << 20}
		if lags {
			c.BatchRows, c.BatchPeriod = 1, 20*time.Millisecond
		}
		flushes := 0
		faults := sinktest.Flushes(func(sinktest.Call) (f sinktest.Fault) {
			for lags && !onDisk.Load() {
				time.Sleep(time.Millisecond)
			}
			if flushes++; breaks && flushes == lines/3 {
				f.Err = errBroken
			}
			return f
		})
		run := func() error {
			_, err := runUntil(t, c, dest, faulty(faults), func(p *progress.Progress) bool {
				slow.p.Store(p)
				s := p.Snapshot()
				return s.Lines == lines || onDisk.Load() && s.Lines > 0 && s.Spool == 0
			})
			return err
		}
		err := run()
		if breaks {
			if !errors.Is(err, errBroken) {
				t.Fatal(err)
			}
			err = run()
		}
		testcheck.NoError(t, err)
		return query(t, dest, "SELECT group_concat(raw || ' ' || line || ' ' || offset, ', ' ORDER BY line) FROM weir_rejects")
	}
	memory := places(t, false, false)
	if want := "bad 59 60 1219"; !strings.HasSuffix(memory, want) {
		t.Errorf("from memory the places are\n%s, want the last to be %s", memory, want)
	}
	if disk := places(t, true, false); disk != memory {
		t.Errorf("from the disk the places are\n%s, want\n%s", disk, memory)
	}
	if later := places(t, true, true); later != memory {
		t.Errorf("in a later run the places are\n%s, want\n%s", later, memory)
	}
}

// TestSpool_OldKeepalives: those of a connection that is over do not end the one at hand.
func TestSpool_OldKeepalives(t *testing.T) {
	folded := make(chan struct{})
	f := newScripted(t, func(n int, _ string) (string, bool) {
		if n == 0 {
			return `{"pitr":"1","id":"a"}` + "\n" + `{"pitr":"2","id":"b"}` + "\n" + `{"pitr":"3","id":"c"}` + "\n" +
				strings.Repeat(`{"pitr":"3","type":"keepalive"}`+"\n", 5), false
		}
		<-folded
		return `{"pitr":"4","id":"d"}` + "\n", true
	})
	dir := t.TempDir()
	c := configOf(t, f.addr, "table")
	c.BatchRows = 1
	c.Feed.Keepalive, c.Feed.StaleAfter = job.Match{Field: "type", Value: "keepalive"}, 5
	c.Spool = spool.Folders{Dir: filepath.Join(dir, "spool"), Max: 1 << 20}
	db := newOutage()
	var back, all sync.Once
	_, err := runUntil(t, c, filepath.Join(dir, "t.db"), faulty(db.faults()), func(p *progress.Progress) bool {
		if len(f.was()) == 2 {
			back.Do(func() { close(db.back) })
		}
		if p.Snapshot().Lines == 8 {
			all.Do(func() { close(folded) })
		}
		return p.Snapshot().Lines == 9
	})
	testcheck.NoError(t, err)
	if was := f.was(); len(was) != 2 {
		t.Errorf("%d connections were made: %q", len(was), was)
	}
}

// What only a connection can do about keepalives is not done for a file, however many there are.
func TestSync_KeepalivesInAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "feed.jsonl")
	write(t, file, append(slices.Repeat([]string{`{"type":"keepalive"}`}, 10), `{"id":1}`))
	c := configOf(t, file, "fail")
	c.Feed = job.Feed{Keepalive: job.Match{Field: "type", Value: "keepalive"}, StaleAfter: 5}
	dest := filepath.Join(t.TempDir(), "t.db")
	succeeds(t, c, dest, nil)
	has(t, dest, "1", "SELECT count(*) FROM t")
}
