package spool_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirsync/weir/internal/spool"
)

// disk is a folder whose power can be cut: of what was not synced, each block of a file
// may be lost, and so may the names that were made and removed.
type disk struct {
	now, synced map[string]*content // by name; synced: as the folder was last synced
	noSync      bool                // syncing does nothing
	full        bool
	syncing     func() // is called where a file is synced, before what it has counts as synced
}

type content struct{ now, synced []byte }

const block = 512

func newDisk() *disk { return &disk{now: map[string]*content{}, synced: map[string]*content{}} }

func (d *disk) Names() ([]string, error) { return slices.Collect(maps.Keys(d.now)), nil }

func (d *disk) Open(name string) (spool.File, error) {
	c := d.now[name]
	if c == nil {
		c = &content{}
		d.now[name] = c
	}
	return &file{c, d}, nil
}

func (d *disk) Remove(name string) error {
	delete(d.now, name)
	return nil
}

func (d *disk) Rename(from, to string) error {
	d.now[to] = d.now[from]
	delete(d.now, from)
	return nil
}

func (d *disk) Sync() error {
	if !d.noSync {
		d.synced = maps.Clone(d.now)
	}
	return nil
}

// cut is the folder after a power cut.
func (d *disk) cut(rnd *rand.Rand) *disk {
	after := newDisk()
	for _, names := range []map[string]*content{d.synced, d.now} {
		for _, name := range slices.Sorted(maps.Keys(names)) {
			c := names[name]
			if d.synced[name] != d.now[name] && rnd.IntN(2) == 0 {
				continue
			}
			size := len(c.synced)
			if len(c.now) != size && rnd.IntN(2) == 0 {
				size = len(c.now)
			}
			left := make([]byte, size)
			for at := 0; at < size; at += block {
				from := c.synced
				if rnd.IntN(3) > 0 {
					from = c.now
				}
				if end := min(at+block, size); at < len(from) {
					copy(left[at:end], from[at:])
				}
			}
			after.now[name] = &content{left, bytes.Clone(left)}
		}
	}
	_ = after.Sync()
	return after
}

type file struct {
	*content
	d *disk
}

var errFull = errors.New("no space")

func (f *file) ReadAt(p []byte, at int64) (int, error) {
	return bytes.NewReader(f.now).ReadAt(p, at)
}

func (f *file) WriteAt(p []byte, at int64) (int, error) {
	n := len(p)
	if f.d.full {
		n /= 2
	}
	if need := int(at) + n; need > len(f.now) {
		f.now = append(f.now, make([]byte, need-len(f.now))...)
	}
	copy(f.now[at:], p[:n])
	if f.d.full {
		return n, errFull
	}
	return n, nil
}

func (f *file) Truncate(n int64) error {
	f.now = append(f.now[:min(int(n), len(f.now))], make([]byte, max(0, int(n)-len(f.now)))...)
	return nil
}

func (f *file) Sync() error {
	if f.d.syncing != nil {
		f.d.syncing()
	}
	if !f.d.noSync {
		f.synced = bytes.Clone(f.now)
	}
	return nil
}

func (f *file) Close() error         { return nil }
func (f *file) Size() (int64, error) { return int64(len(f.now)), nil }

func open(t *testing.T, fs spool.FS) *spool.Log {
	t.Helper()
	l, err := spool.Open(fs, 2000, 0)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// lines reads a log from an offset to its end.
func lines(t *testing.T, l *spool.Log, at int64) string {
	t.Helper()
	var all []byte
	_, end := l.Bounds()
	p := make([]byte, 300)
	for at < end {
		n, err := l.ReadLines(p, at)
		if err != nil || n == 0 {
			t.Fatalf("ReadLines at %d: %d, %v", at, n, err)
		}
		all = append(all, p[:n]...)
		at += int64(n)
	}
	return string(all)
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// run is a number of lines.
func run(rnd *rand.Rand, n int) string {
	var b strings.Builder
	for range 1 + rnd.IntN(5) {
		fmt.Fprintf(&b, `{"id":%d,"text":"%s"}`+"\n", n, strings.Repeat("x", rnd.IntN(60)))
	}
	return b.String()
}

func TestLog_GoesOnWhereItEnded(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	d, all := newDisk(), ""
	l := open(t, d)
	check(t, l.Begin(spool.Meta{ID: "x", Job: "job", Source: "tcp://x", Seq: 7}, 1000, "6"))
	if l.Resume() != "6" {
		t.Error(l.Resume())
	}
	for n := range 300 {
		lines := run(rnd, n)
		resume := fmt.Sprint(n)
		if n%3 == 0 {
			resume = "" // the run has none
		}
		at, err := l.Append([]byte(lines), resume)
		check(t, err)
		if at != 1000+int64(len(all)) {
			t.Fatalf("run %d lies at %d, want %d", n, at, 1000+len(all))
		}
		all += lines
		if n%50 == 49 {
			check(t, l.Close())
			l = open(t, d)
		}
	}
	if begin, end := l.Bounds(); begin != 1000 || end != 1000+int64(len(all)) || l.Lost() != 0 {
		t.Errorf("bounds %d and %d, lost %d", begin, end, l.Lost())
	}
	if got := lines(t, l, 1000); got != all {
		t.Error("the lines are not those that were appended")
	}
	if l.Resume() != "299" && l.Resume() != "298" || l.Meta().Seq != 7 {
		t.Errorf("resume %s, meta %+v", l.Resume(), l.Meta())
	}
}

func TestLog_ForgetsWholeSegments(t *testing.T) {
	rnd := rand.New(rand.NewPCG(2, 1))
	l := open(t, newDisk())
	all, kept := "", ""
	for n := range 200 {
		lines := run(rnd, n)
		_, err := l.Append([]byte(lines), fmt.Sprint(n))
		check(t, err)
		all += lines
	}
	keep := func(_ time.Time, content io.Reader) error {
		b, err := io.ReadAll(content)
		kept += string(b)
		return err
	}
	check(t, l.Forget(10000, false, keep))
	begin, end := l.Bounds()
	if begin == 0 || begin > 10000 || 10000-begin > 2500 {
		t.Errorf("the log begins at %d", begin)
	}
	if kept+lines(t, l, begin) != all {
		t.Error("what was kept and what is left are not what was appended")
	}
	check(t, l.Forget(end, false, keep))
	if l.Size() == 0 {
		t.Error("the segment that is appended to was removed")
	}
	check(t, l.Forget(end, true, keep))
	if at, err := l.Append([]byte("{}\n"), ""); l.Size() != 3 || kept != all || at != end || err != nil {
		t.Errorf("size %d, at %d, %v", l.Size(), at, err)
	}
	if l.Resume() != "199" {
		t.Error(l.Resume())
	}
}

// A file cut at any byte, or with any byte changed, costs the runs from there on and
// no other.
func TestLog_EndsBehindTheLastWholeRun(t *testing.T) {
	whole, ends, all := newDisk(), []int{0}, ""
	l := open(t, whole)
	for n := range 4 {
		all += fmt.Sprintf(`{"id":%d,"a":"ü"}`+"\n", n)
		_, err := l.Append([]byte(all[ends[n]:]), fmt.Sprint("r", n))
		check(t, err)
		ends = append(ends, len(all))
	}
	check(t, l.Close())
	for _, name := range slices.Sorted(maps.Keys(whole.now)) {
		for at := range whole.now[name].now {
			for _, cut := range []bool{true, false} {
				d := newDisk()
				for name, c := range whole.now {
					d.now[name] = &content{now: bytes.Clone(c.now)}
				}
				c := d.now[name]
				was := len(c.now)
				if cut {
					c.now = c.now[:at]
				} else {
					c.now[at] ^= 1
				}
				l := open(t, d)
				_, end := l.Bounds()
				n := slices.Index(ends, int(end))
				if n < 0 || lines(t, l, 0) != all[:end] {
					t.Fatalf("%s, byte %d, cut %v: the log ends at %d", name, at, cut, end)
				}
				if strings.HasSuffix(name, ".jsonl") {
					// The runs before the damage stand.
					if before := slices.IndexFunc(ends, func(e int) bool { return e > at }) - 1; n != before {
						t.Fatalf("byte %d of %d, cut %v: it ends after %d runs, want %d", at, was, cut, n, before)
					}
				}
				if n > 0 && l.Resume() != fmt.Sprint("r", n-1) {
					t.Fatalf("resume %q after %d runs", l.Resume(), n)
				}
				_, err := l.Append([]byte("{}\n"), "")
				check(t, err)
				check(t, l.Close())
				if got := lines(t, open(t, d), 0); got != all[:end]+"{}\n" {
					t.Fatalf("%s, byte %d: then it holds %q", name, at, got)
				}
			}
		}
	}
}

// A crash may leave a segment of which nothing is on disk but its name.
func TestLog_ResumeValueOutlivesASegmentWithoutAnIndex(t *testing.T) {
	d := newDisk()
	l := open(t, d)
	check(t, l.Begin(spool.Meta{ID: "x"}, 50, ""))
	_, err := l.Append([]byte("{}\n"), "7")
	check(t, errors.Join(err, l.Close()))
	for _, ext := range []string{".jsonl", ".index"} {
		d.now["00000000000000000053-29990101T000000.000Z"+ext] = &content{}
		l = open(t, d)
		if begin, end := l.Bounds(); l.Resume() != "7" || begin != 50 || end != 53 || l.Lost() != 0 {
			t.Errorf("%s: resume %q, from %d to %d, %d lost", ext, l.Resume(), begin, end, l.Lost())
		}
		check(t, l.Close())
	}
}

// powerCuts cuts the power at random moments, and returns how often something that was
// synced was lost. Lines are also appended while others are synced.
func powerCuts(t *testing.T, trials int, noSync bool) (lost int) {
	rnd := rand.New(rand.NewPCG(3, 1))
	for range trials {
		d, all, safe := newDisk(), "", 0
		d.noSync = noSync
		l := open(t, d)
		add := func(n int) {
			lines := run(rnd, n)
			_, err := l.Append([]byte(lines), fmt.Sprint(n))
			check(t, err)
			all += lines
		}
		for n := range rnd.IntN(100) {
			add(n)
			if rnd.IntN(4) > 0 {
				continue
			}
			promised := len(all)
			d.syncing = func() {
				if d.syncing = nil; rnd.IntN(2) == 0 {
					add(n)
				}
			}
			check(t, l.Sync())
			d.syncing, safe = nil, promised
		}
		after := open(t, d.cut(rnd))
		begin, end := after.Bounds()
		if begin != 0 || int(end) < safe {
			lost++
			continue
		}
		if noSync {
			continue // whatever it holds
		}
		if got := lines(t, after, 0); !strings.HasPrefix(all, got) {
			t.Fatal("after a power cut the log holds what was not appended")
		}
	}
	return lost
}

func TestLog_PowerCutLosesNothingThatWasSynced(t *testing.T) {
	if lost := powerCuts(t, 2000, false); lost > 0 {
		t.Errorf("%d of 2000 power cuts took what was synced", lost)
	}
	if powerCuts(t, 200, true) == 0 {
		t.Error("without a sync nothing was lost either: the test proves nothing")
	}
}

// TestLog_SlowSyncStopsNobody: while a disk syncs, lines are appended, read and counted. Where
// it is to sync before the next segment is begun, who appends has to wait, and nobody else.
func TestLog_SlowSyncStopsNobody(t *testing.T) {
	d := newDisk()
	l := open(t, d)
	add := func() {
		t.Helper()
		_, err := l.Append(bytes.Repeat([]byte("line\n"), 10), "7")
		check(t, err)
	}
	// during does something while the disk syncs for somebody else.
	during := func(sync func() error, do func()) {
		t.Helper()
		begun, release := make(chan bool), make(chan bool)
		d.syncing = func() {
			d.syncing = nil
			close(begun)
			<-release
		}
		ended := make(chan error)
		go func() { ended <- sync() }()
		<-begun
		tooLong := time.AfterFunc(10*time.Second, func() { close(release) })
		do()
		if !tooLong.Stop() {
			t.Error("it had to wait for the disk")
		} else {
			close(release)
		}
		check(t, <-ended)
	}
	add()
	during(l.Sync, func() {
		for l.Size() < 1000 {
			add()
		}
		if got := lines(t, l, 0); len(got) != 1000 || l.Resume() != "7" {
			t.Errorf("%d of %d bytes can be read", len(got), l.Size())
		}
	})
	for l.Size() < 2000 {
		add()
	}
	appended := func() error {
		_, err := l.Append([]byte("{}\n"), "8")
		return err
	}
	during(appended, func() {
		if got := lines(t, l, 0); len(got) != 2000 || l.Resume() != "7" {
			t.Errorf("%d of %d bytes can be read", len(got), l.Size())
		}
	})
	if l.Size() != 2003 || l.Resume() != "8" {
		t.Errorf("the log has %d bytes, resume %s", l.Size(), l.Resume())
	}
	check(t, l.Close())
}

// TestLog_ClockSetBack: a segment that was begun in the future is not appended to until then.
func TestLog_ClockSetBack(t *testing.T) {
	d := newDisk()
	segments := func(begun string) (n int) {
		t.Helper()
		name := "00000000000000000000-" + begun
		d.now = map[string]*content{name + ".index": {now: []byte(`9 0879194c "7"` + "\n")}, name + ".jsonl": {now: []byte("{\"id\":1}\n")}}
		l, err := spool.Open(d, 1<<20, time.Hour)
		check(t, err)
		if l.Lost() > 0 {
			t.Fatal("did not exercise: the segment is not whole")
		}
		_, err = l.Append([]byte("{}\n"), "")
		check(t, errors.Join(err, l.Close()))
		return len(d.now) / 2
	}
	if n := segments(time.Now().UTC().Format("20060102T150405.000Z")); n != 1 {
		t.Errorf("a segment that was just begun is one of %d", n)
	}
	if n := segments("29990101T000000.000Z"); n != 2 {
		t.Error("a segment of the year 2999 is appended to")
	}
}

func TestLog_FullDisk(t *testing.T) {
	d := newDisk()
	l := open(t, d)
	for n := range 500 {
		d.full = n%3 == 1
		_, err := l.Append(fmt.Appendf(nil, `{"n":%d}`+"\n", n), "")
		if (err != nil) != d.full {
			t.Fatal(n, err)
		}
	}
	d.full = false
	check(t, l.Close())
	got := lines(t, open(t, d), 0)
	for n := range 500 {
		if strings.Contains(got, fmt.Sprintf("{\"n\":%d}\n", n)) != (n%3 != 1) {
			t.Errorf("line %d is there: %v", n, n%3 == 1)
		}
	}
}

func TestOpenDir_OneProcessAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b")
	d, err := spool.OpenDir(path)
	check(t, err)
	info, err := os.Stat(path)
	check(t, err)
	if info.Mode().Perm()&0o077 != 0 {
		t.Errorf("others may read it: %v", info.Mode())
	}
	l, err := spool.Open(d, 1<<20, time.Hour)
	check(t, err)
	_, err = l.Append([]byte("{}\n"), "")
	check(t, err)
	check(t, errors.Join(l.Close(), d.Close()))
}

// TestLog_FullDiskUntilTheSegmentIsOld: what a full disk took of a run of lines is in nobody's
// way when the next run goes to another segment; and tries leave no files.
func TestLog_FullDiskUntilTheSegmentIsOld(t *testing.T) {
	synctest.Test(t, fullDiskUntilOld)
}

func fullDiskUntilOld(t *testing.T) {
	const age = time.Hour
	d := newDisk()
	l, err := spool.Open(d, 2000, age)
	check(t, err)
	check(t, l.Begin(spool.Meta{ID: "x"}, 0, ""))
	_, err = l.Append([]byte("one\n"), "1")
	check(t, err)
	d.full = true
	for range 3 {
		if _, err := l.Append([]byte("two two two\n"), "2"); err == nil {
			t.Fatal("did not exercise: the disk is not full")
		}
		time.Sleep(age)
	}
	if len(d.now) > 3 {
		t.Errorf("the folder has %q", slices.Sorted(maps.Keys(d.now)))
	}
	d.full = false
	for _, line := range []string{"two two two\n", "three\n"} {
		_, err = l.Append([]byte(line), "3")
		check(t, err)
	}
	check(t, l.Close())
	l, err = spool.Open(d, 2000, age)
	check(t, err)
	if got := lines(t, l, 0); got != "one\ntwo two two\nthree\n" || l.Lost() > 0 {
		t.Errorf("the log has %q; %d bytes were lost", got, l.Lost())
	}
}

func FuzzOpen(f *testing.F) {
	f.Add([]byte(`9 9c4cf0cb "7"`+"\n"), []byte("{\"a\":1}\n"))
	f.Fuzz(func(t *testing.T, index, data []byte) {
		d := newDisk()
		const name = "00000000000000000000-20261121T104500.000Z"
		d.now[name+".index"], d.now[name+".jsonl"] = &content{now: index}, &content{now: data}
		l, err := spool.Open(d, 1000, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, end := l.Bounds()
		if end+l.Lost() != int64(len(data)) || end > 0 && !bytes.HasPrefix(d.now[name+".jsonl"].now, data[:end]) {
			t.Errorf("end %d, lost %d", end, l.Lost())
		}
	})
}
