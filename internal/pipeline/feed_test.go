package pipeline_test

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/pipeline"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/source/file"
	"github.com/weirsync/weir/internal/source/tcp"
	"github.com/weirsync/weir/internal/spool"
	"github.com/weirsync/weir/internal/status"
	"github.com/weirsync/weir/internal/test/logtest"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// accept serves each connection, numbered from 0, and then closes it. It returns the source name.
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

// asked returns the value after which a connection asks a feed to resume.
func asked(conn net.Conn) string {
	hello, _ := bufio.NewReader(conn).ReadString('\n')
	return strings.TrimSpace(strings.TrimPrefix(hello, "from"))
}

// stay returns when the other side closes the connection.
func stay(conn net.Conn) { _, _ = conn.Read(make([]byte, 1)) }

// behind returns the lines after the line with a resume value.
func behind(lines []string, value string) string {
	for i, line := range lines {
		if value != "" && strings.Contains(line, fmt.Sprintf(`"pitr":%q`, value)) {
			lines = lines[i+1:]
			break
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// kindOf returns the kind of a source.
func kindOf(spec string) source.Kind {
	kinds := source.Kinds{file.Kind(file.Options{Poll: 10 * time.Millisecond}), tcp.Dialed(tcp.Options{}), tcp.Listening(tcp.Options{})}
	return *kinds.Of(spec)
}

func configOf(t *testing.T, spec string, rejects pipeline.Rejects) pipeline.Config {
	t.Helper()
	c := pipeline.Config{
		Kind: kindOf(spec), Sources: []string{spec}, Source: source.Options{RetryFor: time.Minute, MaxLine: 1000}, Job: "t",
		Feed:   pipeline.Feed{ResumeField: "pitr", Hello: func(resume string) ([]byte, error) { return []byte("from " + resume + "\n"), nil }},
		Limits: pipeline.Limits{BatchRows: 1000, BatchPeriod: 20 * time.Millisecond, Buffer: 1 << 20}, Rejects: pipeline.RejectRules{To: rejects, Max: 1 << 20}, Log: logtest.New(t),
	}
	plainTable(t, &c, mapping.Table{Rules: fold.Rules{MaxColumns: 10}})
	return c
}

// plainTable sets the tables of a run: t, by the key id, with the fields of the lines.
func plainTable(t testing.TB, c *pipeline.Config, of mapping.Table) {
	t.Helper()
	if of.Name = "t"; of.Key == nil {
		of.Key = []string{"id"}
	}
	var err error
	c.Plan, err = mapping.Compile(&mapping.Mapping{Tables: []mapping.Table{of}}, schema.Limits{FoldCase: true})
	testcheck.NoError(t, err)
}

// runUntil runs a job until so is true, or until it ends. through, if not nil, wraps the database.
func runUntil(t *testing.T, c pipeline.Config, dest string, through func(sink.Sink) sink.Sink, so func(p *status.Progress) bool) (*status.Progress, error) {
	t.Helper()
	db := openSink(t, dest, sink.Off)
	defer db.Close()
	claims := openClaims(t, dest)
	defer claims.Close()
	if through != nil {
		db = through(db)
	}
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
	defer stop()
	p, ended := status.New(c.Plan.TableNames()...), make(chan error, 1)
	go func() { ended <- pipeline.Run(ctx, c, db, claims, p) }()
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

// runToEnd runs a job until it ends, with or without faults.
func runToEnd(t *testing.T, c pipeline.Config, dest string, faults sinktest.Faults) (*status.Progress, error) {
	t.Helper()
	if faults == nil {
		return runUntil(t, c, dest, nil, never)
	}
	return runUntil(t, c, dest, faulty(faults), never)
}

// succeedsUntil is runUntil for a run that must succeed. succeeds is runToEnd for one.
func succeedsUntil(t *testing.T, c pipeline.Config, dest string, through func(sink.Sink) sink.Sink, so func(p *status.Progress) bool) *status.Progress {
	t.Helper()
	p, err := runUntil(t, c, dest, through, so)
	testcheck.NoError(t, err)
	return p
}

func succeeds(t *testing.T, c pipeline.Config, dest string, faults sinktest.Faults) *status.Progress {
	t.Helper()
	p, err := runToEnd(t, c, dest, faults)
	testcheck.NoError(t, err)
	return p
}

// faulty wraps the database of a run to add faults.
func faulty(faults sinktest.Faults) func(sink.Sink) sink.Sink {
	return func(db sink.Sink) sink.Sink { return sinktest.Faulty(db, faults) }
}

func never(*status.Progress) bool { return false }

func lines(n int64) func(*status.Progress) bool {
	return func(p *status.Progress) bool { return p.Snapshot().Lines >= n }
}

const ids = "SELECT group_concat(id, ' ' ORDER BY id) FROM t"

// TestSync_LineThatEndsTheRun: the next run reads the line that ended a run again, whatever its source.
func TestSync_LineThatEndsTheRun(t *testing.T) {
	for name, line := range map[string]string{"no message": "bad line", "no key": `{"pitr":"2","x":1}`, "too long": strings.Repeat("x", 3000)} {
		feed := []string{`{"pitr":"1","id":"a"}`, line, `{"pitr":"3","id":"c"}`}
		file := filepath.Join(t.TempDir(), "feed.jsonl")
		testcheck.NoError(t, os.WriteFile(file, []byte(behind(feed, "")), 0o600))
		for kind, spec := range map[string]string{
			"file":       file,
			"connection": accept(t, func(_ int, conn net.Conn) { _, _ = io.WriteString(conn, behind(feed, asked(conn))); stay(conn) }),
		} {
			t.Run(name+", "+kind, func(t *testing.T) {
				dest := filepath.Join(t.TempDir(), "t.db")
				for n := range 2 {
					if _, err := runUntil(t, configOf(t, spec, pipeline.FailRejects), dest, nil, lines(2)); !errors.Is(err, pipeline.ErrRejected) {
						t.Errorf("run %d: %v", n, err)
					}
					has(t, dest, "a", ids)
				}
			})
		}
	}
}

// TestSync_WhatCannotBeReadAgain: a run that would have to read lines again, and cannot, ends and names the lines.
func TestSync_WhatCannotBeReadAgain(t *testing.T) {
	// Before the nth flush, the database loses the previous one.
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
			stay(conn)
		}), "table")
		c.Feed.Hello, c.BatchRows = nil, 1
		if _, err := runUntil(t, c, filepath.Join(t.TempDir(), "t.db"), through(2), never); err == nil || !strings.Contains(err.Error(), "not committed: 2. They") {
			t.Error(err)
		}
	})
	// The second connection counts its lines from 1 again, and sends fewer than the first.
	t.Run("a feed that has reconnected", func(t *testing.T) {
		both := make(chan struct{})
		c := configOf(t, accept(t, func(n int, conn net.Conn) {
			for i := range []int{100, 50}[min(n, 1)] {
				fmt.Fprintf(conn, `{"id":"%d"}`+"\n", 100*n+i)
			}
			if n == 0 {
				<-both // until everything is committed
			} else {
				stay(conn)
			}
		}), "table")
		c.Feed, c.BatchRows, c.BatchPeriod = pipeline.Feed{}, 50, time.Hour
		var once sync.Once
		_, err := runUntil(t, c, filepath.Join(t.TempDir(), "t.db"), faulty(nth(3, sinktest.Fault{Err: sink.ChangedError{Err: errors.New("a view was dropped")}})), func(p *status.Progress) bool {
			if p.Snapshot().Batches == 2 {
				once.Do(func() { close(both) })
			}
			return false
		})
		if err == nil || !strings.Contains(err.Error(), "a view was dropped; lines of "+c.Sources[0]+" that were read and not committed: 50. They are lost unless they are sent again") {
			t.Error(err)
		}
	})
	t.Run("a FIFO", func(t *testing.T) { // although it has a name like a file
		fifo := filepath.Join(t.TempDir(), "fifo")
		if out, err := exec.Command("mkfifo", fifo).CombinedOutput(); err != nil {
			t.Skipf("NOT TESTED: no FIFO can be made here: %s", out)
		}
		go func() { _ = os.WriteFile(fifo, []byte(numbered(0, 30)), 0) }() // the run may end before
		c := configOf(t, fifo, "table")
		c.Feed, c.BatchRows, c.BatchPeriod = pipeline.Feed{}, 10, time.Hour
		p, err := runToEnd(t, c, filepath.Join(t.TempDir(), "t.db"), nth(2, sinktest.Fault{Err: errBroken}))
		if want := errBroken.Error() + "; lines of " + fifo + " that were read and not committed: 20. They"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %s", err, want)
		}
		if s := p.Snapshot().Stops; len(s) != 1 || s[0].Lost != 20 || s[0].Resumes {
			t.Errorf("the source was left at %+v", s)
		}
	})
	t.Run("stdin", func(t *testing.T) {
		feed, dest := "", filepath.Join(t.TempDir(), "t.db")
		for n, more := range []int{1000, 50} {
			feed += numbered(0, more)
			c := configOf(t, "-", "table")
			c.Job, c.ResumeStdin, c.BatchRows, c.BatchPeriod, c.Kind = "t", true, 10, time.Hour, file.Kind(file.Options{Stdin: strings.NewReader(feed)})
			_, err := runUntil(t, c, dest, through(4+1000*(1-n)), never)
			if n == 0 && err != nil || n == 1 && (err == nil || !strings.Contains(err.Error(), "lines of stdin that were read and perhaps not committed: 50. They")) {
				t.Errorf("run %d: %v", n, err)
			}
		}
	})
}

// TestSync_LostLinesAreCounted: a run that ends with an error reports how many lines it has read and not committed,
// including lines not folded yet.
func TestSync_LostLinesAreCounted(t *testing.T) {
	const sent, batch = 20_000, 500
	c := configOf(t, "tcp-listen://127.0.0.1:0", "table")
	c.BatchRows, c.BatchPeriod, c.Buffer = batch, time.Hour, 1<<26
	sends(&c, numbered(0, sent)) // the run does not read all of it
	broken := errors.New("it broke")
	for _, is := range []error{broken, &sink.Error{Class: sink.Unknown, Err: broken}, &sink.Error{Class: sink.Transient, Reason: "connection", Err: broken}} {
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

// In a file, keepalives have no effect, however many there are.
func TestSync_KeepalivesInAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "feed.jsonl")
	write(t, file, append(slices.Repeat([]string{`{"type":"keepalive"}`}, 10), `{"id":1}`))
	c := configOf(t, file, "fail")
	c.Feed = pipeline.Feed{Keepalive: pipeline.Match{Field: "type", Value: "keepalive"}, StaleAfter: 5}
	dest := filepath.Join(t.TempDir(), "t.db")
	succeeds(t, c, dest, nil)
	has(t, dest, "1", "SELECT count(*) FROM t")
}

// A breaking feed closes each connection but the last after some lines. If asked to resume after a value, it sends the
// lines after the line with that value. If it is inclusive, it also sends the lines with that value, and perhaps the
// bad lines right before them.
type breaking struct {
	inclusive bool
	before    bool
	lines     []string
	values    []string // of the lines; "": a line without one
	cuts      []int    // lines per connection

	mu    sync.Mutex
	last  string   // last value sent
	asked []string // value requested by each connection
	wants []string // last value of the connection before
	sent  int      // number of lines
	all   bool
}

// newBreaking returns a feed, the bad lines in it that must be kept, and the last n of each id.
func newBreaking(rnd *rand.Rand, inclusive bool) (b *breaking, bad []string, want map[string]int) {
	b = &breaking{inclusive: inclusive, cuts: []int{40, 61, 30, 55, 47}}
	want = map[string]int{}
	known := map[string]bool{} // bad lines after the current value
	last, share := "", 1
	if inclusive {
		share = 3 // lines with the same value
	}
	for n := range 400 {
		value := fmt.Sprintf("v%03d", n/share)
		id, line, good := fmt.Sprintf("k%d", rnd.IntN(20)), "", false
		switch kind := rnd.IntN(8); {
		case n%67 == 30:
			value, line = "", fmt.Sprintf("%05d%02000d", n, 0) // too long
		case kind == 0:
			value, line = "", fmt.Sprintf("garbage %d", rnd.IntN(1000))
		case kind == 1:
			value, line = "", "the same garbage behind "+last
		case kind == 2 && n%2 == 0: // an empty value does not count: it would ask for the beginning, or only for new lines
			value, line, good = "", fmt.Sprintf(`{"pitr":"","id":%q,"n":%d}`, id, n), true
			want[id] = n
		case kind == 2:
			line = fmt.Sprintf(`{"pitr":%q,"n":%d}`, value, n) // of no row
		default:
			line, good = fmt.Sprintf(`{"pitr":%q,"id":%q,"n":%d,"pad":"%0200d"}`, value, id, n, 0), true
			want[id] = n
		}
		b.lines, b.values = append(b.lines, line), append(b.values, value)
		if value != "" && value != last {
			last = value
			clear(known)
		}
		if !good && !known[line] {
			known[line] = true
			bad = append(bad, line)
		}
	}
	return b, bad, want
}

func (b *breaking) serve(n int, conn net.Conn) {
	value, at := asked(conn), 0
	b.mu.Lock()
	b.asked, b.wants = append(b.asked, value), append(b.wants, b.last)
	if value != "" {
		at = slices.Index(b.values, value)
		if !b.inclusive {
			at++
		}
		for b.before && at > 0 && b.values[at-1] == "" {
			at--
		}
	}
	end, all := len(b.lines), n >= len(b.cuts)
	if !all {
		end = at + b.cuts[n]
	}
	for _, v := range b.values[at:end] {
		b.last = cmp.Or(v, b.last)
	}
	b.mu.Unlock()
	fmt.Fprintln(conn, strings.Join(b.lines[at:end], "\n"))
	b.mu.Lock()
	b.sent, b.all = b.sent+end-at, all
	b.mu.Unlock()
	if all {
		stay(conn)
		return
	}
	fmt.Fprint(conn, b.lines[end][:5]) // and the beginning of another line
}

// TestSync_LostConnection: weir asks the feed to resume only after earlier lines are committed or on disk. No line is
// folded twice, and each bad line is kept once.
func TestSync_LostConnection(t *testing.T) {
	for _, spool := range []bool{false, true} {
		for name, how := range map[string]struct{ inclusive, before bool }{"exclusive": {}, "inclusive": {inclusive: true}, "before": {inclusive: true, before: true}} {
			t.Run(fmt.Sprintf("spool=%v,%s", spool, name), func(t *testing.T) {
				t.Parallel()
				sinktest.Seeds(t, 1, func(t *testing.T, rnd *rand.Rand) { lostConnection(t, rnd, spool, how.inclusive, how.before) })
			})
		}
	}
}

func lostConnection(t *testing.T, rnd *rand.Rand, spooled, inclusive, before bool) {
	b, bad, want := newBreaking(rnd, inclusive)
	b.before = before
	dir := t.TempDir()
	dest := filepath.Join(dir, "t.db")
	c := configOf(t, accept(t, b.serve), "table")
	c.BatchPeriod = time.Minute
	if spooled {
		c.BatchPeriod, c.Spool = 50*time.Millisecond, spool.Folders{Dir: filepath.Join(dir, "spool"), Max: 1 << 20}
	}
	// A flush takes longer than a reconnection.
	slow := sinktest.Flushes(func(sinktest.Call) sinktest.Fault { return sinktest.Fault{Delay: 700 * time.Millisecond} })
	p, err := runUntil(t, c, dest, faulty(slow), func(p *status.Progress) bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.all && p.Snapshot().Lines == int64(b.sent)
	})
	if err != nil || p.Rejected() != int64(len(bad)) {
		t.Errorf("%d bad lines are counted, want %d, however often the feed sent them: %v", p.Rejected(), len(bad), err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Equal(b.asked, b.wants) {
		t.Errorf("asked to resume after %q,\nbut the last lines had %q", b.asked, b.wants)
	}
	kept := strings.Split(query(t, dest, "SELECT group_concat(raw, '\n' ORDER BY raw) FROM weir_rejects"), "\n")
	if slices.Sort(bad); !slices.Equal(kept, bad) {
		t.Errorf("%d bad lines were kept, want %d:\n%q\n%q", len(kept), len(bad), kept, bad)
	}
	var rows []string
	for id, n := range want {
		rows = append(rows, fmt.Sprint(id, "=", n))
	}
	slices.Sort(rows)
	has(t, dest, strings.Join(rows, " "), "SELECT group_concat(id || '=' || n, ' ' ORDER BY id || '=' || n) FROM t")
}
