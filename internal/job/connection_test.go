package job_test

import (
	"bufio"
	"cmp"
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/progress"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/spool"
)

// A breaking feed closes each connection but the last after some lines. One that is
// asked to resume after a value sends what came after the line with that value, or, if it
// is inclusive, the lines with that value too, and perhaps the bad ones right before them.
type breaking struct {
	inclusive bool
	before    bool
	lines     []string
	values    []string // of the lines, "" for those without
	cuts      []int    // how many lines a connection brings

	mu    sync.Mutex
	last  string   // value that was sent
	asked []string // for what each connection asked
	wants []string // the last value of the connection before
	sent  int      // lines
	all   bool
}

// newBreaking returns a feed, the bad lines in it that have to be kept, and the last n of
// each id.
func newBreaking(rnd *rand.Rand, inclusive bool) (b *breaking, bad []string, want map[string]int) {
	b = &breaking{inclusive: inclusive, cuts: []int{40, 61, 30, 55, 47}}
	want = map[string]int{}
	known := map[string]bool{} // bad lines behind the value at hand
	last, share := "", 1
	if inclusive {
		share = 3 // lines have a value in common
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
		case kind == 2 && n%2 == 0: // an empty value is none: it would ask for the beginning, or for what comes from now on
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

func (b *breaking) serve(t *testing.T, n int, conn net.Conn) {
	in := bufio.NewReader(conn)
	hello, err := in.ReadString('\n')
	if err != nil {
		t.Error(err)
	}
	b.mu.Lock()
	value, at := strings.TrimSpace(strings.TrimPrefix(hello, "from")), 0
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
		_, _ = in.ReadByte() // until the other side goes
		return
	}
	fmt.Fprint(conn, b.lines[end][:5]) // and the beginning of another
}

// TestSync_LostConnection: what a connection brought is committed, or on disk, before the
// feed is asked to resume; nothing is folded twice, and each bad line is kept once.
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
	c := configOf(t, accept(t, func(n int, conn net.Conn) { b.serve(t, n, conn) }), "table")
	c.BatchPeriod = time.Minute
	if spooled {
		c.BatchPeriod, c.Spool = 50*time.Millisecond, spool.Folders{Dir: filepath.Join(dir, "spool"), Max: 1 << 20}
	}
	// A flush takes longer than it takes to connect again.
	slow := sinktest.Flushes(func(sinktest.Call) sinktest.Fault { return sinktest.Fault{Delay: 700 * time.Millisecond} })
	p, err := runUntil(t, c, dest, faulty(slow), func(p *progress.Progress) bool {
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
