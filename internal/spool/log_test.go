package spool_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/spool"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// disk is a folder whose power can be cut. Any block of a file that was not synced may then be lost, and so may names
// that were created and removed.
type disk struct {
	now, synced map[string]*content // by name; synced: when the folder was last synced
	noSync      bool                // syncing does nothing
	full        bool
	syncing     func() // called when a file is synced, before its content counts as synced
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

func (d *disk) Sync() error {
	if !d.noSync {
		d.synced = maps.Clone(d.now)
	}
	return nil
}

// cut returns the folder after a power cut.
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

func (f *file) Close() error               { return nil }
func (f *file) Stat() (fs.FileInfo, error) { return info(len(f.now)), nil }

// info is a file's size.
type info int64

func (i info) Size() int64      { return int64(i) }
func (info) Name() string       { return "" }
func (info) Mode() fs.FileMode  { return 0 }
func (info) ModTime() time.Time { return time.Time{} }
func (info) IsDir() bool        { return false }
func (info) Sys() any           { return nil }

func open(t *testing.T, fs spool.FS) *spool.Log {
	t.Helper()
	l, err := spool.Open(fs, 2000, math.MaxInt64, 0)
	testcheck.NoError(t, err)
	return l
}

// lines reads a log from an offset to its end.
func lines(t *testing.T, l *spool.Log, at int64) string {
	t.Helper()
	var all []byte
	end := endOf(l)
	p := make([]byte, 500)
	for at < end {
		n, _, err := l.Read(p, at, end)
		if err != nil || n == 0 {
			t.Fatalf("Read at %d: %d, %v", at, n, err)
		}
		all = append(all, p[:n]...)
		at += int64(n)
	}
	return string(all)
}

// run returns n random lines.
func run(rnd *rand.Rand, n int) string {
	var b strings.Builder
	for range 1 + rnd.IntN(5) {
		fmt.Fprintf(&b, `{"id":%d,"text":"%s"}`+"\n", n, strings.Repeat("x", rnd.IntN(60)))
	}
	return b.String()
}

func TestLog_ForgetsWholeSegments(t *testing.T) {
	rnd := rand.New(rand.NewPCG(2, 1))
	l := open(t, newDisk())
	all, kept := "", ""
	for n := range 200 {
		lines := run(rnd, n)
		testcheck.NoError(t, l.Append([]byte(lines), spool.Origin{}))
		all += lines
	}
	keep := func(_ time.Time, content io.WriterTo) error {
		var b strings.Builder
		_, err := content.WriteTo(&b)
		kept += b.String()
		return err
	}
	l.Commit(10000)
	testcheck.NoError(t, l.Forget(false, keep))
	begin, end := l.Bounds()
	if begin == 0 || begin > 10000 || 10000-begin > 2500 {
		t.Errorf("the log begins at %d", begin)
	}
	if kept+lines(t, l, begin) != all {
		t.Error("what was kept and what is left are not what was appended")
	}
	l.Commit(end)
	testcheck.NoError(t, l.Forget(false, keep))
	if size(l) == 0 {
		t.Error("the segment that is appended to was removed")
	}
	testcheck.NoError(t, l.Forget(true, keep))
	testcheck.NoError(t, l.Append([]byte("{}\n"), spool.Origin{}))
	testcheck.NoError(t, l.Reset(spool.Meta{}, end, keep))
	all += "{}\n"
	if err := l.Append([]byte("{}\n"), spool.Origin{}); size(l) != 3 || kept != all || endOf(l) != end+3 || err != nil {
		t.Errorf("size %d, end %d, %v", size(l), endOf(l), err)
	}
}

func size(l *spool.Log) int64 {
	begin, end := l.Bounds()
	return end - begin
}

// A damagedLog is a log of small segments, with what was written to it.
type damagedLog struct {
	*testing.T
	disk   *disk
	all    string
	ends   []int // of each run, in all
	synced int   // bytes of all that are synced
	last   int   // where the last segment begins
}

const smallSegment = 300

func newDamagedLog(t *testing.T, rnd *rand.Rand) (*damagedLog, *spool.Log) {
	w := &damagedLog{T: t, disk: newDisk()}
	l, err := spool.Open(w.disk, smallSegment, math.MaxInt64, 0)
	testcheck.NoError(t, err)
	for n := range 1 + rnd.IntN(12) {
		lines, files := run(rnd, n), len(w.disk.now)
		testcheck.NoError(t, l.Append([]byte(lines), spool.Origin{Oversize: int64(rnd.IntN(2)), Conn: uint32(rnd.IntN(2))}))
		if len(w.disk.now) > files {
			w.synced, w.last = len(w.all), len(w.all)
		}
		w.all += lines
		w.ends = append(w.ends, len(w.all))
		if rnd.IntN(3) == 0 {
			testcheck.NoError(t, l.Sync())
			w.synced = len(w.all)
		}
	}
	return w, l
}

// places checks that an error names the segment of the damaged file.
func (w *damagedLog) places(err error, name string) {
	w.Helper()
	damage, stem := new(spool.DamageError), strings.TrimSuffix(name, filepath.Ext(name))
	if !errors.As(err, &damage) || !strings.HasPrefix(damage.File, stem) || damage.Bytes == 0 || damage.At < 0 {
		w.Fatalf("with %s damaged: %v", name, err)
	}
}

// read reads all lines, with a buffer of any size, and checks that they are the first of those that were written. It
// starts with the second line.
func (w *damagedLog) read(l *spool.Log, rnd *rand.Rand) (to int, err error) {
	w.Helper()
	_, _ = w.readFrom(strings.IndexByte(w.all, '\n')+1, l, rnd)
	return w.readFrom(0, l, rnd)
}

func (w *damagedLog) readFrom(begin int, l *spool.Log, rnd *rand.Rand) (to int, err error) {
	w.Helper()
	end := endOf(l)
	at := int64(begin)
	for size := 1 + rnd.IntN(1000); at < end; {
		p := make([]byte, size)
		n, _, err := l.Read(p, at, end)
		if err != nil {
			return int(at), err
		}
		if !strings.HasPrefix(w.all[at:], string(p[:n])) {
			w.Fatalf("at %d it reads %q", at, p[:n])
		}
		if at += int64(n); n == 0 {
			size *= 2
		}
		if size > 4096 {
			w.Fatalf("at %d no buffer is enough", at)
		}
	}
	return int(at), nil
}

// keep returns what captures get from all segments.
func (w *damagedLog) keep(l *spool.Log) (kept string, err error) {
	l.Commit(endOf(l))
	err = l.Forget(true, func(_ time.Time, content io.WriterTo) error {
		var b strings.Builder
		_, err := content.WriteTo(&b)
		if err == nil {
			kept += b.String()
		}
		return err
	})
	return kept, err
}

// opened checks what is left of a log with a damaged file.
func (w *damagedLog) opened(name string, rnd *rand.Rand) {
	w.Helper()
	d := newDisk()
	for name, c := range w.disk.now {
		d.now[name] = &content{now: bytes.Clone(c.now)}
	}
	l, err := spool.Open(d, smallSegment, math.MaxInt64, 0)
	if err != nil {
		w.places(err, name)
		return
	}
	end := endOf(l)
	left := w.all[:end]
	if n := int(end); n < w.synced || n < w.last || l.Lost != int64(len(w.all)-n) {
		w.Fatalf("with %s damaged: %d of %d bytes are left, %d lost, %d were synced", name, n, len(w.all), l.Lost, w.synced)
	} else if n > 0 && !slices.Contains(w.ends, n) {
		w.Fatalf("the log ends at %d, within a run", n)
	}
	if to, err := w.read(l, rnd); err != nil {
		w.places(err, name)
	} else if to != int(end) {
		w.Fatalf("%d of %d bytes were read", to, end)
	} else {
		left += "{}\n"
		testcheck.NoError(w.T, errors.Join(l.Append([]byte("{}\n"), spool.Origin{}), closed(l)))
		l, err = spool.Open(d, smallSegment, math.MaxInt64, 0)
		testcheck.NoError(w.T, err)
		if got := lines(w.T, l, 0); got != left || l.Lost > 0 {
			w.Fatalf("with %s damaged it then holds %q", name, got)
		}
	}
	kept, err := w.keep(l)
	if err != nil {
		w.places(err, name)
	}
	if !strings.HasPrefix(left, kept) || err == nil && kept != left {
		w.Fatalf("with %s damaged the captures got %q, %v", name, kept, err)
	}
}

// TestLog_AnyDamagedByte: whichever byte of a log is damaged, during reading or before it is opened, after a kill or a
// clean end: lines come as they were written, or an error names the place. Only what was never synced may be cut off,
// and counts as lost.
func TestLog_AnyDamagedByte(t *testing.T) {
	sinktest.Seeds(t, 30, func(t *testing.T, rnd *rand.Rand) {
		w, l := newDamagedLog(t, rnd)
		each := func(do func(name string)) {
			for _, name := range slices.Sorted(maps.Keys(w.disk.now)) {
				text := w.disk.now[name].now
				for at := range text {
					was := bytes.Clone(text)
					text[at] ^= byte(1 + rnd.IntN(255))
					if strings.HasSuffix(name, ".jsonl") {
						for next := at + 1; next < min(at+rnd.IntN(10), len(text)); next++ {
							text[next] = byte(rnd.Uint32())
						}
					}
					do(name)
					copy(text, was)
				}
			}
		}
		each(func(name string) {
			if _, err := w.read(l, rnd); err != nil {
				w.places(err, name)
			}
		})
		if to, err := w.read(l, rnd); to != len(w.all) || err != nil {
			t.Fatal("did not exercise:", to, err)
		}
		if rnd.IntN(2) == 0 {
			testcheck.NoError(t, closed(l))
			w.synced = len(w.all)
		}
		each(func(name string) { w.opened(name, rnd) })
	})
}

// TestLog_CutFile: a missing end of a synced segment is detected, and so is a missing index. The entries cut off an
// index are unknown, so their lines are cut off too, but not silently.
func TestLog_CutFile(t *testing.T) {
	sinktest.Seeds(t, 10, func(t *testing.T, rnd *rand.Rand) {
		w, l := newDamagedLog(t, rnd)
		testcheck.NoError(t, closed(l))
		w.synced = len(w.all)
		for _, name := range slices.Sorted(maps.Keys(w.disk.now)) {
			c := w.disk.now[name]
			text := c.now
			for at := range text {
				if c.now = text[:at]; strings.HasSuffix(name, ".jsonl") {
					w.opened(name, rnd)
					continue
				}
				synced := w.synced
				w.synced = 0
				w.opened(name, rnd)
				w.synced = synced
			}
			c.now = text
			if strings.HasSuffix(name, ".sums") {
				delete(w.disk.now, name)
				for range 2 { // the error must not create sums either
					if _, err := spool.Open(w.disk, smallSegment, math.MaxInt64, 0); err == nil || !strings.Contains(err.Error(), name+" is missing") {
						t.Errorf("without %s: %v", name, err)
					}
				}
				w.disk.now[name] = c
			}
		}
	})
}

// TestOpen_RemovesWhatARemovalLeft: a crash between the removal of a segment's two files leaves the index.
func TestOpen_RemovesWhatARemovalLeft(t *testing.T) {
	d := newDisk()
	l := open(t, d)
	testcheck.NoError(t, errors.Join(l.Append([]byte("{}\n"), spool.Origin{}), closed(l)))
	for name := range d.now {
		d.now["notes.sums"] = &content{}
		if strings.HasSuffix(name, ".jsonl") {
			delete(d.now, name)
		}
	}
	testcheck.NoError(t, open(t, d).Close())
	if left := slices.Collect(maps.Keys(d.now)); !slices.Equal(left, []string{"notes.sums"}) {
		t.Errorf("%q are left", left)
	}
}

// A crash may leave only the names of a segment's files on disk, or one of them.
func TestLog_SegmentWithoutSums(t *testing.T) {
	d := newDisk()
	l := open(t, d)
	testcheck.NoError(t, l.Reset(spool.Meta{ID: "x"}, 50, nil))
	testcheck.NoError(t, errors.Join(l.Append([]byte("{}\n"), spool.Origin{}), closed(l)))
	for _, ext := range []string{".jsonl", ".sums"} {
		d.now["00000000000000000053-29990101T000000.000Z"+ext] = &content{}
		l = open(t, d)
		if begin, end := l.Bounds(); begin != 50 || end != 53 || l.Lost != 0 {
			t.Errorf("%s: from %d to %d, %d lost", ext, begin, end, l.Lost)
		}
		testcheck.NoError(t, closed(l))
	}
}

// powerCuts cuts the power at random moments, and returns how often something that was synced was lost. Lines are also
// appended during a sync, and committed ones removed.
func powerCuts(t *testing.T, trials int, noSync bool) (lost int) {
	rnd := rand.New(rand.NewPCG(3, 1))
	for range trials {
		d, all, safe, forgotten := newDisk(), "", 0, 0
		d.noSync = noSync
		l := open(t, d)
		add := func(n int) {
			lines := run(rnd, n)
			testcheck.NoError(t, l.Append([]byte(lines), spool.Origin{}))
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
			testcheck.NoError(t, l.Sync())
			d.syncing, safe = nil, promised
			if rnd.IntN(2) == 0 {
				forgotten = max(forgotten, rnd.IntN(safe+1))
				l.Commit(int64(forgotten))
				testcheck.NoError(t, l.Forget(false, nil))
			}
		}
		after, err := spool.Open(d.cut(rnd), 2000, math.MaxInt64, 0)
		if noSync && errors.As(err, new(*spool.DamageError)) {
			lost++
			continue
		}
		testcheck.NoError(t, err)
		begin, end := after.Bounds()
		if int(begin) > forgotten || int(end) < safe {
			lost++
			continue
		}
		if noSync {
			continue // it may hold anything
		}
		if got := lines(t, after, begin); !strings.HasPrefix(all[begin:], got) {
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

// TestLog_SlowSyncStopsNobody: during a sync, lines are appended, read and counted. Only an Append that starts a new
// segment has to wait for a sync.
func TestLog_SlowSyncStopsNobody(t *testing.T) {
	d := newDisk()
	l := open(t, d)
	add := func() {
		t.Helper()
		testcheck.NoError(t, l.Append(bytes.Repeat([]byte("line\n"), 10), spool.Origin{}))
	}
	// during calls do during another goroutine's sync.
	during := func(sync func() error, do func()) {
		t.Helper()
		begun, release := make(chan bool), make(chan bool)
		d.syncing = func() {
			d.syncing = nil
			begun <- !l.IsLocked()
			<-release
		}
		ended := make(chan error)
		go func() { ended <- sync() }()
		if free := <-begun; !free {
			close(release)
			t.Fatal("the log is locked while the disk syncs")
		}
		tooLong := time.AfterFunc(2*time.Minute, func() { close(release) })
		do()
		if !tooLong.Stop() {
			t.Error("it had to wait for the disk")
		} else {
			close(release)
		}
		testcheck.NoError(t, <-ended)
	}
	add()
	during(l.Sync, func() {
		for size(l) < 1000 {
			add()
		}
		if got := lines(t, l, 0); len(got) != 1000 {
			t.Errorf("%d of %d bytes can be read", len(got), size(l))
		}
	})
	for size(l) < 2000 {
		add()
	}
	appended := func() error { return l.Append([]byte("{}\n"), spool.Origin{}) }
	during(appended, func() {
		if got := lines(t, l, 0); len(got) != 2000 {
			t.Errorf("%d of %d bytes can be read", len(got), size(l))
		}
	})
	if size(l) != 2003 {
		t.Errorf("the log has %d bytes", size(l))
	}
	testcheck.NoError(t, closed(l))
}

// TestLog_ClockSetBack: a segment with a start time in the future is not appended to.
func TestLog_ClockSetBack(t *testing.T) {
	d := newDisk()
	segments := func(begun string) (n int) {
		t.Helper()
		name := "00000000000000000000-" + begun
		d.now = map[string]*content{name + ".sums": {now: sumsOf("{\"id\":1}\n")}, name + ".jsonl": {now: []byte("{\"id\":1}\n")}}
		l, err := spool.Open(d, 1<<20, math.MaxInt64, time.Hour)
		testcheck.NoError(t, err)
		if l.Lost > 0 {
			t.Fatal("did not exercise: the segment is not whole")
		}
		testcheck.NoError(t, errors.Join(l.Append([]byte("{}\n"), spool.Origin{}), closed(l)))
		return len(d.now) / 2
	}
	if n := segments(time.Now().UTC().Format("20060102T150405.000Z")); n != 1 {
		t.Errorf("a segment that was just begun is one of %d", n)
	}
	if n := segments("29990101T000000.000Z"); n != 2 {
		t.Error("a segment of the year 2999 is appended to")
	}
}

// TestCompatibility: this version reads a spool that an earlier version wrote. -update writes one in today's format, in
// a folder named after the format's number.
func TestCompatibility(t *testing.T) {
	const fixtures = "../../testdata/compatibility/spool"
	lines := []string{"{\"id\":1}\n", "{\"id\":2}\n{\"id\":3}\n"}
	meta := spool.Meta{ID: "A", Job: "air", Source: "tcp://feed:4000", Seq: 7}
	open := func(t *testing.T, path string) *spool.Log {
		l, err := spool.Open(spool.Folder(path), 1<<20, math.MaxInt64, time.Hour)
		testcheck.NoError(t, err)
		return l
	}
	if *testcheck.Update {
		path := t.TempDir()
		l := open(t, path)
		testcheck.NoError(t, l.Reset(meta, 100, nil))
		for _, text := range lines {
			testcheck.NoError(t, l.Append([]byte(text), spool.Origin{}))
		}
		to := filepath.Join(fixtures, fmt.Sprint(l.Meta.Format))
		testcheck.NoError(t, errors.Join(closed(l), os.RemoveAll(to), os.CopyFS(to, os.DirFS(path))))
	}
	formats, err := os.ReadDir(fixtures)
	testcheck.NoError(t, err)
	for _, f := range formats {
		path := filepath.Join(t.TempDir(), f.Name())
		testcheck.NoError(t, os.CopyFS(path, os.DirFS(filepath.Join(fixtures, f.Name()))))
		l := open(t, path)
		if got := l.Meta; fmt.Sprint(got.Format) != f.Name() || got.ID != meta.ID || got.Job != meta.Job || got.Source != meta.Source || got.Seq != meta.Seq {
			t.Errorf("format %s: meta is %+v", f.Name(), got)
		}
		text := make([]byte, 1000)
		n, _, err := l.Read(text, 100, endOf(l))
		testcheck.NoError(t, err)
		if want := strings.Join(lines, ""); string(text[:n]) != want {
			t.Errorf("format %s: %q, want %q", f.Name(), text[:n], want)
		}
		testcheck.NoError(t, closed(l))
	}
}

// TestOpen_CutMeta: what a power cut has left of an empty log's description does not matter. A log of another format is
// refused, and left as it is.
func TestOpen_CutMeta(t *testing.T) {
	d := newDisk()
	l := open(t, d)
	testcheck.NoError(t, errors.Join(l.Reset(spool.Meta{ID: "x"}, 0, nil), closed(l)))
	text := d.now["spool.json"].now
	for n := range text {
		d.now["spool.json"].now = append(bytes.Clone(text[:n]), make([]byte, len(text)-n)...)
		testcheck.NoError(t, open(t, d).Close())
	}
	d.now["spool.json"].now = text
	l = open(t, d)
	testcheck.NoError(t, errors.Join(l.Append([]byte("{}\n"), spool.Origin{}), l.Close()))
	d.now["spool.json"].now = []byte(`{"format":1}`)
	for name := range d.now {
		if strings.HasSuffix(name, ".sums") {
			d.now[name].now = make([]byte, 32)
		}
	}
	if _, err := spool.Open(d, 2000, math.MaxInt64, 0); err == nil || !strings.Contains(err.Error(), "spool.json: made by another version of weir (format 1, this one has 2)") {
		t.Error(err)
	}
	for name, c := range d.now {
		if strings.HasSuffix(name, ".jsonl") && string(c.now) != "{}\n" {
			t.Errorf("%s has %q now", name, c.now)
		}
	}
}

// TestLog_FullDisk: what a full disk left of a run of lines does not get in the way of the next run, in the same
// segment or, if that is old, in a new one. Failed tries leave one empty segment.
func TestLog_FullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const age = time.Hour
		d, want := newDisk(), ""
		l, err := spool.Open(d, 2000, math.MaxInt64, age)
		testcheck.NoError(t, err)
		testcheck.NoError(t, l.Reset(spool.Meta{ID: "x"}, 0, nil))
		add := func(full bool, line string) {
			t.Helper()
			d.full = full
			if err := l.Append([]byte(line), spool.Origin{}); (err != nil) != full {
				t.Fatalf("%q on a disk that is full, %v: %v", line, full, err)
			} else if !full {
				want += line
			}
		}
		for n := range 500 {
			add(n%3 == 1, fmt.Sprintf(`{"n":%d}`+"\n", n))
		}
		files := len(d.now)
		for range 3 {
			add(true, "two two two\n")
			time.Sleep(age)
		}
		if len(d.now) > files+2 {
			t.Errorf("the folder has %q", slices.Sorted(maps.Keys(d.now)))
		}
		add(false, "two two two\n")
		add(false, "three\n")
		testcheck.NoError(t, closed(l))
		l, err = spool.Open(d, 2000, math.MaxInt64, age)
		testcheck.NoError(t, err)
		if got := lines(t, l, 0); got != want || l.Lost > 0 {
			t.Errorf("the log has %q; %d bytes were lost", got, l.Lost)
		}
	})
}

// sumsOf returns the sums of a segment with one run.
func sumsOf(lines string) []byte {
	d := newDisk()
	l, err := spool.Open(d, 1<<20, math.MaxInt64, 0)
	if err == nil {
		err = l.Append([]byte(lines), spool.Origin{})
	}
	if err != nil {
		panic(err)
	}
	for name, c := range d.now {
		if strings.HasSuffix(name, ".sums") {
			return c.now
		}
	}
	return nil
}

// closed syncs and closes a log.
func closed(l *spool.Log) error { return errors.Join(l.Sync(), l.Close()) }

// endOf returns the offset after the last line.
func endOf(l *spool.Log) int64 {
	_, end := l.Bounds()
	return end
}
