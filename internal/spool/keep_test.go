package spool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/status"
	"github.com/weirsync/weir/internal/test/logtest"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// feed is a source whose events a test sends.
type feed struct {
	pool   *source.Pool
	blocks chan *source.Block
	opened bool
	resume string        // from its Begin
	ended  chan struct{} // closed by Stop
}

func newFeed() *feed {
	return &feed{pool: source.NewPool(), blocks: make(chan *source.Block), ended: make(chan struct{})}
}

func (f *feed) Next(ctx context.Context) (source.Event, error) {
	if !f.opened {
		f.opened = true
		return source.Event{Kind: source.Opened, Lane: "feed", Begin: func(_ context.Context, from source.Point) (source.Lane, error) {
			f.resume = from.Resume
			return source.Lane{At: from.Cursor}, nil
		}}, nil
	}
	select {
	case b, ok := <-f.blocks:
		if !ok {
			return source.Event{}, io.EOF
		}
		return source.Event{Lane: "feed", Block: b}, nil
	case <-f.ended:
		return source.Event{}, io.EOF
	case <-ctx.Done():
		return source.Event{}, ctx.Err()
	}
}

func (f *feed) Stop()        { close(f.ended) }
func (f *feed) Close() error { return nil }

// block returns a block of connection 1.
func (f *feed) block(lines string) *source.Block {
	b, _ := f.pool.Fill(func(buf []byte) (int, error) { return copy(buf, lines), nil })
	b.Conn = 1
	return b
}

// slowDisk is a folder whose files are synced when the test allows it, or whose syncs fail, or which has little room.
type slowDisk struct {
	FS
	may  atomic.Pointer[chan struct{}] // nil: at once
	fail atomic.Bool
	room atomic.Int64 // bytes; 0: enough
}

type slowFile struct {
	File
	d *slowDisk
}

func (d *slowDisk) Open(name string) (File, error) {
	f, err := d.FS.Open(name)
	return slowFile{f, d}, err
}

var errSync = errors.New("the disk broke")

func (f slowFile) Sync() error {
	if may := f.d.may.Load(); may != nil {
		<-*may
	}
	if f.d.fail.Load() {
		return errSync
	}
	return f.File.Sync()
}

func (f slowFile) WriteAt(p []byte, at int64) (int, error) {
	used, folder := int64(len(p)), string(f.d.FS.(Folder))
	if files, err := os.ReadDir(folder); err != nil {
		return 0, err
	} else {
		for _, file := range files {
			if info, err := file.Info(); err == nil {
				used += info.Size()
			}
		}
	}
	if room := f.d.room.Load(); room > 0 && used > room {
		return 0, syscall.ENOSPC
	}
	return f.File.WriteAt(p, at)
}

// queued is a spool or a capture that runs.
type queued struct {
	*testing.T
	*Keeper
	feed  *feed
	lane  source.Lane
	disk  *slowDisk
	level atomic.Int64
	said  chan string
}

// start starts a spool in a folder, or a capture if c has a folder for one.
func start(t *testing.T, path string, c Config) *queued {
	t.Helper()
	return startAt(t, path, c, source.Point{})
}

// startAt is start after a committed point.
func startAt(t *testing.T, path string, c Config, from source.Point) *queued {
	t.Helper()
	s := &queued{T: t, feed: newFeed(), disk: &slowDisk{}, said: make(chan string, 1000)}
	c.Job, c.Source, c.Pool, c.Gauge, c.Period = "job", "feed", s.feed.pool, s.level.Store, time.Second
	c.Log = logtest.To(func(text string) { s.said <- text })
	var paused status.Cause
	c.Paused = func(why status.Cause) {
		if why != paused {
			s.said <- "pause " + string(why)
		}
		paused = why
	}
	opened, err := s.feed.Next(t.Context())
	testcheck.NoError(t, err)
	if c.Capture == "" {
		c.Dir = path
	}
	s.Keeper = Keep(s.feed, c)
	s.disk.FS = s.fs
	s.fs = s.disk
	s.lane, err = s.begin(t.Context(), from, opened.Begin)
	testcheck.NoError(t, err)
	return s
}

func (s *queued) committed(c source.Cursor) { s.lane.Committed(c) }

func (s *queued) send(lines string) *source.Block {
	b := s.feed.block(lines)
	s.feed.blocks <- b
	return b
}

// want reads a block of a connection.
func (s *queued) want(lines string, conn int) *source.Block {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), time.Hour)
	defer cancel()
	e, err := s.Next(ctx)
	if err != nil || e.Kind != source.Data {
		s.Fatal(e, err)
	}
	b := e.Block
	if string(b.Data) != lines || b.Conn != conn {
		s.Fatalf("%q of connection %d, want %q of %d", b.Data, b.Conn, lines, conn)
	}
	return b
}

func (s *queued) end() {
	s.Helper()
	if err := s.Close(); err != nil {
		s.Error(err)
	}
}

// TestSpool_AtOnce: lines are returned as soon as they are on disk, and those that wait there together. The gauge
// follows appends and commits.
func TestSpool_AtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, t.TempDir(), Config{Folders: Folders{Max: 1 << 20}})
		begun := time.Now()
		go s.send("1\n")
		first := s.want("1\n", 1)
		for i := range 3 {
			s.send(fmt.Sprintln("waits", i))
		}
		synctest.Wait()
		s.want("waits 0\nwaits 1\nwaits 2\n", 1)
		go s.send("2\n")
		last := s.want("2\n", 1)
		if took := time.Since(begun); took > 0 {
			t.Errorf("it took %v", took)
		}
		if s.level.Load() != 28 {
			t.Errorf("%d bytes are not committed, it says", s.level.Load())
		}
		s.committed(first.CursorAfter(2))
		if s.level.Load() != 26 {
			t.Errorf("after a commit of 2 bytes: %d", s.level.Load())
		}
		s.committed(`{"spool":"another","at":28}`)
		s.committed(last.CursorAfter(2))
		if s.level.Load() != 0 {
			t.Errorf("after the last: %d", s.level.Load())
		}
		s.end()
	})
}

// TestSpool_SlowSyncStopsNobody: during a sync, lines are appended, read and committed.
func TestSpool_SlowSyncStopsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, t.TempDir(), Config{Folders: Folders{Max: 1 << 20}})
		may := make(chan struct{})
		go s.send("1\n")
		s.want("1\n", 1)
		s.disk.may.Store(&may)
		time.Sleep(1500 * time.Millisecond) // the log is being synced
		for i := range 100 {
			line := fmt.Sprintln(i)
			go s.send(line)
			s.committed(s.want(line, 1).CursorAfter(len(line)))
			if s.level.Load() != 0 {
				t.Fatalf("%d bytes are not committed", s.level.Load())
			}
		}
		select {
		case may <- struct{}{}:
		default:
			t.Error("did not exercise: nothing was synced")
		}
		s.disk.may.Store(nil)
		close(may)
		s.end()
	})
}

// TestSpool_CommitMakesRoom: a commit of everything makes room, in a spool that has its limit and on a full disk.
func TestSpool_CommitMakesRoom(t *testing.T) {
	for why, limits := range map[status.Cause]struct{ most, room int64 }{status.SpoolFull: {2500, 0}, status.SpoolDiskFull: {1 << 20, 2500}} {
		synctest.Test(t, func(t *testing.T) {
			line := strings.Repeat("x", 999) + "\n"
			s := start(t, t.TempDir(), Config{Folders: Folders{Max: limits.most}})
			s.disk.room.Store(limits.room)
			go s.send(line)
			s.want(line, 1)
			go s.send(line)
			last := s.want(line, 1)
			s.send(line) // there is no room for it
			close(s.feed.blocks)
			begun := time.Now()
			time.Sleep(10 * time.Second)
			if w := <-s.said; w != "pause "+string(why) || len(s.said) > 0 {
				t.Error(w)
			}
			s.committed(last.CursorAfter(len(line)))
			s.want(line, 1)
			if took := time.Since(begun); took > 10*time.Second+2*roomPoll {
				t.Errorf("after the commit it took %v", took-10*time.Second)
			}
			if w := <-s.said; w != "pause " {
				t.Error(w)
			}
			s.end()
		})
	}
}

// TestSpool_CapturesGetRoomFirst: once a disk is full that a spool shares with captures, reading pauses until there was
// room to compress what is committed.
func TestSpool_CapturesGetRoomFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		line := strings.Repeat("x", 999) + "\n"
		s := start(t, t.TempDir(), Config{Folders: Folders{Max: 1 << 20}})
		s.disk.room.Store(2500)
		var full atomic.Bool
		full.Store(true)
		s.tidying.Lock()
		s.archive = func(time.Time, io.WriterTo) error {
			if full.Load() {
				return syscall.ENOSPC
			}
			return nil
		}
		s.tidying.Unlock()
		for range 2 {
			go s.send(line)
			s.committed(s.want(line, 1).CursorAfter(len(line)))
		}
		s.send(line) // there is no room for it
		time.Sleep(10 * time.Second)
		s.disk.room.Store(0)
		time.Sleep(10 * time.Second)
		if _, end := s.log.Bounds(); end != int64(2*len(line)) {
			t.Errorf("%d bytes are in the spool", end)
		}
		full.Store(false)
		s.want(line, 1)
		s.end()
		close(s.said)
		var said []string
		for text := range s.said {
			said = append(said, text)
		}
		want := []string{"pause spool_disk_full", "the capture's disk is full: its lines stay where they are until there is room", "pause capture_disk_full", "pause ", "1,000 bytes in the spool: left for the next run"}
		if !slices.Equal(said, want) {
			t.Errorf("said: %q", said)
		}
	})
}

// TestSpool_End: the source's end comes after all lines. Close returns the error of the last sync.
func TestSpool_End(t *testing.T) {
	for _, fails := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, t.TempDir(), Config{Folders: Folders{Max: 1 << 20}})
			s.send("1\n")
			s.send("2\n")
			close(s.feed.blocks)
			synctest.Wait()
			s.disk.fail.Store(fails)
			s.want("1\n2\n", 1)
			for range 2 {
				if _, err := s.Next(t.Context()); err != io.EOF {
					t.Errorf("it ended with %v", err)
				}
			}
			if err := s.Close(); errors.Is(err, errSync) != fails || !fails && err != nil {
				t.Errorf("Close returns %v", err)
			}
		})
	}
}

// TestSpool_DiskFailsAfterStop: Next is not called any more, so Close returns the error.
func TestSpool_DiskFailsAfterStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, t.TempDir(), Config{Folders: Folders{Max: 1 << 20}})
		s.send("1\n")
		synctest.Wait()
		s.disk.fail.Store(true)
		if err := s.Close(); !errors.Is(err, errSync) || !strings.HasPrefix(err.Error(), "the spool "+s.path+": ") {
			t.Errorf("Close says %v", err)
		}
	})
}

// TestSpool_Damage: a run that reads damaged lines from disk ends with an error that says where they are and what to
// do; its advice works.
func TestSpool_Damage(t *testing.T) {
	for repeats, advice := range map[bool]string{true: "the next run asks the feed again for what is not committed", false: "sync them separately, and then start this run again"} {
		synctest.Test(t, func(t *testing.T) {
			dir := t.TempDir()
			c := Config{Folders: Folders{Dir: dir, Max: 1 << 20}, Repeats: repeats, LastResume: lastNumber}
			s := start(t, dir, c)
			s.send("1 one\n")
			s.send("2 two\n")
			synctest.Wait()
			files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
			if err != nil || len(files) != 1 {
				t.Fatal(files, err)
			}
			testcheck.NoError(t, os.WriteFile(files[0], []byte("1 one\n2 twx\n"), 0o600))
			from := source.Point{Cursor: s.want("1 one\n", 1).CursorAfter(6)}
			s.committed(from.Cursor)
			want := fmt.Sprintf("the spool %s: %s is damaged: the 6 bytes from byte 6 on are not those that were written: move %s/*.jsonl to another folder: %s",
				dir, filepath.Base(files[0]), dir, advice)
			if _, err = s.Next(t.Context()); err == nil || err.Error() != want {
				t.Errorf("%v\nwant\n%s", err, want)
			}
			if failed := s.Close(); failed != err {
				t.Errorf("Close returns %v, and not the error of Next: %v", failed, err)
			}
			c.Job, c.Source, c.Gauge, c.Log = "job", "feed", func(int64) {}, logtest.New(t)
			if _, err := Keep(newFeed(), c).begin(t.Context(), from, nil); err == nil || err.Error() != want {
				t.Errorf("the next run: %v\nwant\n%s", err, want)
			}
		})
	}
}

// TestSpool_Oversize: the beginning of an oversized line is a line of its own on disk, for a later run too.
func TestSpool_Oversize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, c := t.TempDir(), Config{Folders: Folders{Max: 1 << 20}}
		s := start(t, dir, c)
		s.send("1\n")
		for range 2 {
			long := s.feed.block("beginning")
			long.Oversize = 1 << 40
			s.feed.blocks <- long
		}
		s.send("2\n")
		close(s.feed.blocks)
		synctest.Wait()
		at := s.want("1\n", 1).CursorAfter(2)
		for run := range 2 {
			for range 2 {
				if b := s.want("beginning\n", 1-run); b.Oversize != 1<<40 || b.OffsetAfter(10) != b.Offset+10 {
					t.Errorf("its length is %d, and %d is after it", b.Oversize, b.OffsetAfter(10))
				}
			}
			if b := s.want("2\n", 1-run); b.Oversize != 0 || b.Offset != 22 {
				t.Errorf("the next line at %d has length %d", b.Offset, b.Oversize)
			}
			if s.end(); run == 0 {
				s = startAt(t, dir, c, source.Point{Cursor: at})
			}
		}
	})
}

// TestSpool_ResumeValue: the feed is asked for what follows the last value on disk, however far back that is, and else
// the checkpoint's.
func TestSpool_ResumeValue(t *testing.T) {
	for value, want := range map[string]string{"value\n": "found", "": "checkpoint"} {
		synctest.Test(t, func(t *testing.T) {
			dir, c := t.TempDir(), Config{Folders: Folders{Max: 1 << 20}, LastResume: func(lines []byte) string {
				if bytes.Contains(lines, []byte("value")) {
					return "found"
				}
				return ""
			}}
			for _, first := range []bool{true, false} {
				s := startAt(t, dir, c, source.Point{Resume: "checkpoint"})
				if first {
					s.send("1\n" + value)
					for range 5 {
						s.send(strings.Repeat("x", minSegment) + "\n")
					}
					close(s.feed.blocks)
				} else if s.feed.resume != want {
					t.Errorf("the feed resumes after %q, want %q", s.feed.resume, want)
				}
				s.end()
			}
		})
	}
}

// TestSpool_IsForItsUser: no other user can read it.
func TestSpool_IsForItsUser(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b")
	start(t, path, Config{Folders: Folders{Max: 1 << 20}}).end()
	info, err := os.Stat(path)
	testcheck.NoError(t, err)
	if info.Mode().Perm()&0o077 != 0 {
		t.Errorf("others may read it: %v", info.Mode())
	}
}

// lastNumber returns the number at the start of the last line.
func lastNumber(lines []byte) string {
	last := lines[bytes.LastIndexByte(lines[:max(0, len(lines)-1)], '\n')+1:]
	number, _, _ := bytes.Cut(last, []byte(" "))
	return string(number)
}

// TestSpool_AnyPace: whatever the pace of source, reader, commits and syncs, and wherever the reader is stopped, it
// gets each line once, with its offset in the log and the connection of this run that sent it. The next queue begins
// after what it committed.
func TestSpool_AnyPace(t *testing.T) {
	sinktest.Seeds(t, 15, func(t *testing.T, rnd *rand.Rand) {
		synctest.Test(t, func(t *testing.T) {
			var all, got bytes.Buffer
			for n := range 300 {
				fmt.Fprintf(&all, "%d %s\n", n, strings.Repeat("x", rnd.IntN(2000)))
			}
			pause := func(rnd *rand.Rand) {
				if rnd.IntN(3) == 0 {
					time.Sleep(time.Duration(rnd.IntN(30)) * time.Millisecond)
				}
			}
			dir, cursor := t.TempDir(), source.Cursor("")
			oversizeAt := make([]int64, all.Len())
			for runs := 0; got.Len() < all.Len(); runs++ {
				s := startAt(t, dir, Config{Folders: Folders{Max: 100_000}, LastResume: lastNumber}, source.Point{Cursor: cursor, Resume: lastNumber(got.Bytes())})
				if s.lane.At != cursor && runs > 0 {
					t.Fatalf("it starts at %s, want %s", s.lane.At, cursor)
				}
				rest := all.Bytes() // a feed sends what came after the resume value
				if r := s.feed.resume; r != "" {
					at := bytes.Index(rest, []byte("\n"+r+" ")) + 1
					if r == "0" {
						at = 0
					}
					rest = rest[at+bytes.IndexByte(rest[at:], '\n')+1:]
				}
				if s.lane.Offset != int64(got.Len()) {
					t.Fatalf("it starts at offset %d, want %d", s.lane.Offset, got.Len())
				}
				connOf := make([]int, all.Len()) // by byte offset; 0: none of this run
				fed := make(chan struct{})
				ctx, cancel := context.WithCancel(t.Context())
				feeder := rand.New(rand.NewPCG(rnd.Uint64(), 2))
				go func() {
					defer close(fed)
					for conn := 1; len(rest) > 0; conn += feeder.IntN(2) {
						end, oversize := min(1+feeder.IntN(10_000), len(rest)), int64(0)
						if feeder.IntN(4) == 0 {
							end, oversize = 1, 1<<40
						}
						end += bytes.IndexByte(append(rest[end-1:len(rest):len(rest)], '\n'), '\n')
						end = min(end, len(rest))
						b := s.feed.block(string(rest[:end]))
						if b.Conn, b.Oversize = conn, oversize; feeder.IntN(4) == 0 {
							b.Restart, b.Offset = true, 0
							if b.Tail = feeder.IntN(2) == 0; b.Tail {
								b.Data = b.Data[:end-1]
							}
						}
						for i := range end {
							connOf[all.Len()-len(rest)+i], oversizeAt[all.Len()-len(rest)+i] = conn, oversize
						}
						select {
						case s.feed.blocks <- b:
						case <-ctx.Done():
							return
						}
						rest = rest[end:]
						pause(feeder)
					}
				}()
				cursor = s.lane.At
				for left := rnd.IntN(60); left > 0 && got.Len() < all.Len(); left-- {
					e, err := s.Next(t.Context())
					testcheck.NoError(t, err)
					b := e.Block
					if b.Oversize != oversizeAt[b.Offset] || b.Oversize > 0 && bytes.Count(b.Data, []byte("\n")) > 1 {
						t.Fatalf("%d bytes at %d have the length %d, want %d", len(b.Data), b.Offset, b.Oversize, oversizeAt[b.Offset])
					}
					if b.Offset != int64(got.Len()) || b.Restart || b.Tail || b.Conn != connOf[b.Offset] || b.Conn != connOf[int(b.Offset)+len(b.Data)-1] {
						t.Fatalf("%d bytes of connection %d at %d (restart %v, tail %v), want connection %d at %d", len(b.Data), b.Conn, b.Offset, b.Restart, b.Tail, connOf[b.Offset], got.Len())
					}
					end := len(b.Data)
					if rnd.IntN(4) == 0 { // a batch ends within a block
						end = bytes.IndexByte(b.Data, '\n') + 1
						left = 0
					}
					got.Write(b.Data[:end])
					cursor = b.CursorAfter(end)
					b.Release()
					s.committed(cursor)
					pause(rnd)
				}
				cancel()
				<-fed
				s.end()
			}
			if !bytes.Equal(got.Bytes(), all.Bytes()) {
				t.Fatalf("%d bytes came, not the %d of the feed", got.Len(), all.Len())
			}
		})
	})
}
