package pipeline_test

import (
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

	"github.com/weirsync/weir/internal/pipeline"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/spool"
	"github.com/weirsync/weir/internal/status"
	"github.com/weirsync/weir/internal/test/logtest"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// outage is a time when a database does not answer.
type outage struct {
	back   chan struct{} // closed when it answers again
	broken chan struct{} // closed when it fails
}

var errBroken = errors.New("the database broke")

func newOutage() *outage { return &outage{make(chan struct{}), make(chan struct{})} }

func (o *outage) faults() sinktest.Faults {
	return sinktest.Flushes(func(sinktest.Call) (f sinktest.Fault) {
		select {
		case <-o.back:
		case <-o.broken:
			f.Err = errBroken
		}
		return f
	})
}

func send(addr string, feed []byte) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	_, err = conn.Write(feed)
	return errors.Join(err, conn.Close())
}

func sizeOf(t *testing.T, pattern string) (size int64) {
	t.Helper()
	files, _ := filepath.Glob(pattern)
	for _, f := range files {
		if info, err := os.Stat(f); err == nil {
			size += info.Size()
		}
	}
	return size
}

// sends makes senders connect to a run as soon as it listens, and send it a feed.
func sends(c *pipeline.Config, feed string) (sent chan error) {
	sent = make(chan error, 3) // one per run, up to three
	c.Log = logtest.To(func(text string) {
		if _, addr, ok := strings.Cut(text, "senders connect to "); ok {
			go func() { sent <- send(addr, []byte(feed)) }()
		}
	})
	return sent
}

// TestSpool_FullOneStopsReading: a full spool pauses reading while the database is unavailable, and nothing is lost.
func TestSpool_FullOneStopsReading(t *testing.T) {
	const lines, most = 20_000, 1 << 20
	var feed strings.Builder
	for n := range lines {
		fmt.Fprintf(&feed, `{"id":%d,"text":"%01000d"}`+"\n", n, n)
	}
	dir, db, full := t.TempDir(), newOutage(), false
	c := configOf(t, "tcp-listen://127.0.0.1:0", "fail")
	c.Feed, c.Source.MaxLine, c.Spool = pipeline.Feed{}, 1<<20, spool.Folders{Dir: filepath.Join(dir, "spool"), Max: most}
	sent, dest := sends(&c, feed.String()), filepath.Join(dir, "t.db")
	succeedsUntil(t, c, dest, faulty(db.faults()), func(p *status.Progress) bool {
		s := p.Snapshot()
		stalls := s.Stalled
		if !full && len(stalls) == 1 && stalls[0].Cause == status.SpoolFull {
			if size := sizeOf(t, filepath.Join(c.Spool.Dir, "*.jsonl")); size > most || size < most/2 || s.Spool < most/2 || len(sent) > 0 {
				t.Errorf("the full spool has %d bytes, and %d by the gauge; %d senders have ended", size, s.Spool, len(sent))
			}
			full = true
			close(db.back)
		}
		return full && len(stalls) == 0 && s.Lines == lines && s.Spool == 0
	})
	testcheck.NoError(t, <-sent)
	has(t, dest, fmt.Sprint(lines, " ", lines-1), "SELECT count(*) || ' ' || max(id) FROM t")
	if left := sizeOf(t, filepath.Join(c.Spool.Dir, "*.jsonl")); left > 0 {
		t.Errorf("%d bytes are left in the spool", left)
	}
}

// A slowFeed waits after each line until it is in the spool, so it is never read as part of a larger block.
type slowFeed struct {
	*testing.T
	p atomic.Pointer[status.Progress]
}

func (f *slowFeed) send(conn io.Writer, lines ...string) {
	for _, line := range lines {
		before := int64(0)
		if p := f.p.Load(); p != nil {
			before = p.Snapshot().Spool
		}
		fmt.Fprintln(conn, line)
		// The last line may have left the spool too, because the run has ended.
		for end := time.Now().Add(time.Minute); f.p.Load() == nil || f.p.Load().Snapshot().Spool == before; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				f.Error("a line never came into the spool")
				return
			}
		}
	}
}

// TestSpool_StaleKeepalives: a reader of the spool drops the stale connection, although its lines come from disk.
func TestSpool_StaleKeepalives(t *testing.T) {
	slow := &slowFeed{T: t}
	var onDisk atomic.Bool
	again := make(chan bool, 1)
	addr := accept(t, func(n int, conn net.Conn) {
		if asked(conn); n > 0 {
			again <- true
			return
		}
		for i := range 30 {
			slow.send(conn, fmt.Sprintf(`{"pitr":"%d","id":"a"}`, i))
		}
		slow.send(conn, slices.Repeat([]string{`{"pitr":"29","type":"keepalive"}`}, 5)...)
		onDisk.Store(true)
		stay(conn)
	})
	db := newOutage()
	var back sync.Once
	spooledKeepalives(t, addr, db, func(p *status.Progress) bool {
		slow.p.Store(p)
		if onDisk.Load() {
			back.Do(func() { close(db.back) })
		}
		return len(again) > 0
	})
}

// spooledKeepalives runs with a spool until so is true. The fifth keepalive in a row drops a connection.
func spooledKeepalives(t *testing.T, addr string, db *outage, so func(p *status.Progress) bool) {
	t.Helper()
	dir := t.TempDir()
	c := configOf(t, addr, "table")
	c.BatchRows = 1
	c.Feed.Keepalive, c.Feed.StaleAfter = pipeline.Match{Field: "type", Value: "keepalive"}, 5
	c.Spool = spool.Folders{Dir: filepath.Join(dir, "spool"), Max: 1 << 20}
	succeedsUntil(t, c, filepath.Join(dir, "t.db"), faulty(db.faults()), so)
}

// TestSpool_PlacesOfRejects: a rejected line has the same place whether it came from memory, from disk, or from disk in
// a later run.
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
			if asked(conn); n == 0 {
				slow.send(conn, feed[:lines/2]...)
				return
			}
			if !onDisk.Load() {
				slow.send(conn, feed[lines/2:]...)
				onDisk.Store(true)
			}
			stay(conn)
		})
		dir := t.TempDir()
		dest := filepath.Join(dir, "t.db")
		c := configOf(t, addr, "table")
		c.BatchRows, c.BatchPeriod = 1000, time.Minute // each line grows the spool if nothing is committed
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
			_, err := runUntil(t, c, dest, faulty(faults), func(p *status.Progress) bool {
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

// TestSpool_OldKeepalives: keepalives of an ended connection do not end the current one.
func TestSpool_OldKeepalives(t *testing.T) {
	folded := make(chan struct{})
	var connections atomic.Int64
	addr := accept(t, func(n int, conn net.Conn) {
		asked(conn)
		if connections.Add(1); n == 0 {
			_, _ = io.WriteString(conn, `{"pitr":"1","id":"a"}`+"\n"+`{"pitr":"2","id":"b"}`+"\n"+`{"pitr":"3","id":"c"}`+"\n"+
				strings.Repeat(`{"pitr":"3","type":"keepalive"}`+"\n", 5))
			return
		}
		<-folded
		_, _ = io.WriteString(conn, `{"pitr":"4","id":"d"}`+"\n")
		stay(conn)
	})
	db := newOutage()
	var back, all sync.Once
	spooledKeepalives(t, addr, db, func(p *status.Progress) bool {
		if connections.Load() == 2 {
			back.Do(func() { close(db.back) })
		}
		if p.Snapshot().Lines == 8 {
			all.Do(func() { close(folded) })
		}
		return p.Snapshot().Lines == 9
	})
	if n := connections.Load(); n != 2 {
		t.Errorf("%d connections were made", n)
	}
}
