package job

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/spool"
)

// Spool says where the lines of a live feed are kept on disk. The zero value is
// nowhere.
type Spool struct {
	// Dir is a folder for the lines that are not committed yet; "" is none. With Max
	// bytes of them reading waits.
	Dir string
	Max int64
	// Capture is a folder that keeps all lines, compressed; "" is none. After KeepCaptures
	// they are removed; 0 is never.
	Capture      string
	KeepCaptures time.Duration
}

const (
	maxSegment = 64 << 20 // bytes of a spool's segment
	minSegment = 64 << 10
	segments   = 8         // that a spool has room for at least
	captureAge = time.Hour // of a segment, where all are kept

	// The fold has so long to take a block from memory before it is left to be read
	// from the disk.
	patient = 10 * time.Millisecond
	// Reading waits for so long before it says so, or tries a full disk again.
	roomPoll = time.Second
)

// spooling is the stage between a live source and the scanners that puts every line on
// disk. Where the fold keeps up, blocks go on to it in memory; where it does not, they
// are read from the disk again, in order, until it has caught up.
type spooling struct {
	stream  *source.Stream
	dir     *spool.Dir // of the log, where it is not in the capture's
	log     *spool.Log
	capture *spool.Captures // where segments go when they are done with, or nil
	folders []string
	max     int64 // 0: lines are kept for the capture alone, and never read again
	period  time.Duration
	resume  string // the field with a resume value, or ""
	warn    func(format string, args ...any)
	info    func(format string, args ...any)
	gauge   func(bytes int64)

	out   chan *source.Block // closed after err is set
	moved chan struct{}      // takes one value when there is something for the drain to see
	room  chan struct{}      // the same when segments were removed
	scan  *feed.Scanner      // of lastResume
	field int32              // the one with a resume value

	forgetting sync.Mutex // one at a time
	saidFull   bool       // that the capture's disk is

	mu     sync.Mutex
	next   int64 // offset of the line that the fold is given next
	direct bool  // it is offered a block in memory
	err    error // the end of the source
	failed error // of the disk
	safe   int64 // all before it is committed
}

// spools reports whether lines wait here until they are committed, and are read again.
func (s *spooling) spools() bool { return s != nil && s.max > 0 }

// openSpool opens the log of a source.
func (r *run) openSpool(stream *source.Stream, cp sink.Checkpoint, from position, job string) (s *spooling, err error) {
	s = &spooling{stream: stream, max: r.Spool.Max, period: r.BatchPeriod, resume: r.Feed.ResumeField, warn: r.Warn, info: r.Info, gauge: r.p.Spool.Store,
		out: make(chan *source.Block), moved: make(chan struct{}, 1), room: make(chan struct{}, 1)}
	s.scan, s.field = feed.NewScanner(&r.names), r.feedNames.resume
	if s.period == 0 {
		s.period = livePeriod
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	path, age, size := r.Spool.Dir, time.Duration(0), min(max(s.max/segments, minSegment), maxSegment)
	var dir spool.FS
	if path != "" {
		if s.dir, err = spool.OpenDir(path); err != nil {
			return s, fmt.Errorf("the spool: %w", err)
		}
		dir, s.folders = s.dir, append(s.folders, path)
	}
	if r.Spool.Capture != "" {
		if s.capture, err = spool.OpenCaptures(r.Spool.Capture, r.Spool.KeepCaptures); err != nil {
			return s, fmt.Errorf("the capture: %w", err)
		}
		age, s.folders = captureAge, append(s.folders, r.Spool.Capture)
	}
	if dir == nil {
		path, dir, s.max, size = r.Spool.Capture, s.capture, 0, maxSegment
	}
	if s.log, err = spool.Open(dir, size, age); err != nil {
		return s, fmt.Errorf("the spool %s: %w", path, err)
	}
	if lost := s.log.Lost(); lost > 0 {
		s.warn("the spool %s: its last %d bytes were not whole, and were cut off", path, lost)
	}
	if !s.spools() {
		_, s.next = s.log.Bounds()
		return s, nil
	}
	if s.next, err = r.place(s, cp, from, job, path); err != nil {
		return s, err
	}
	s.safe = s.next
	if _, end := s.log.Bounds(); s.next < end {
		s.info("%d bytes in %s come first", end-s.next, path)
	}
	return s, nil
}

// place finds where in a spool the lines begin that are not committed. A spool of which
// that cannot be told begins anew, where the feed can be asked for what it held.
func (r *run) place(s *spooling, cp sink.Checkpoint, from position, job, path string) (at int64, err error) {
	begin, end := s.log.Bounds()
	meta, name := s.log.Meta(), s.stream.Name()
	anew := spool.Meta{ID: rand.Text(), Job: job, Source: name, Seq: cp.Seq}
	held := end - begin
	ours := meta.Job == job && meta.Source == name
	known := ours && from.mark.Spool.ID == meta.ID && meta.ID != ""
	fresh := ours && from.mark.Spool.ID == "" && cp.Seq == meta.Seq && !r.FromStart // the database is as it was when the spool was begun
	again := r.Feed.resumes(name)
	switch {
	case known && (held == 0 || from.mark.Spool.At > end): // what a power cut took of it was committed
		return from.mark.Spool.At, s.log.Begin(meta, from.mark.Spool.At, from.mark.Feed.Resume)
	case held == 0:
		return 0, s.log.Begin(anew, 0, from.mark.Feed.Resume)
	case known && from.mark.Spool.At >= begin:
		return from.mark.Spool.At, nil
	case !ours:
		return 0, fmt.Errorf("the folder %s holds %d bytes of job %q and %s: sync them, or take another folder", path, held, meta.Job, meta.Source)
	case fresh && begin == 0: // nothing was committed since
		return begin, nil
	case again || r.FromStart:
		s.warn("the %d bytes in %s are not what follows the checkpoint: they are dropped, and the feed is asked again", held, path)
		return 0, s.log.Begin(anew, 0, from.mark.Feed.Resume)
	case known, fresh:
		s.warn("the database went back to before the first line in %s: the lines between are lost", path)
		return begin, nil
	}
	return 0, fmt.Errorf("the folder %s holds %d bytes of lines that were read before others that are in the table now: sync %s/*.jsonl by themselves, or remove them", path, held, path)
}

// run reads the source until it or ctx ends.
func (s *spooling) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var both sync.WaitGroup
	both.Go(func() {
		defer cancel()
		s.drain(ctx)
	})
	both.Go(func() {
		if err := s.tend(ctx); err != nil {
			s.fail(err)
			cancel()
		}
	})
	err := s.read(ctx)
	s.mu.Lock()
	s.err = err
	s.mu.Unlock()
	signal(s.moved)
	both.Wait()
	if s.failed != nil {
		s.err = s.failed
	}
	close(s.out)
}

// sayLeft tells what stays on disk when a run ends.
func (s *spooling) sayLeft() {
	if _, end := s.log.Bounds(); s.spools() && s.safe < end {
		s.info("%d bytes stay in the spool for the next run", end-s.safe)
	}
}

// fail ends the run for an error of the disk.
func (s *spooling) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil {
		return
	}
	s.failed = fmt.Errorf("the spool: %w", err)
	for _, dir := range s.folders {
		if _, gone := os.Stat(dir); errors.Is(gone, fs.ErrNotExist) {
			s.failed = fmt.Errorf("the folder %s was removed or renamed during the run: %w", dir, err)
			return
		}
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// read puts what comes on disk, and offers it to the fold.
func (s *spooling) read(ctx context.Context) error {
	for {
		b, err := s.stream.Next(ctx)
		if err != nil {
			return err
		}
		switch {
		case b.Settled != nil && s.spools():
			close(b.Settled) // it is on disk
		case b.Settled != nil, b.Oversize > 0 && !s.spools():
			err = s.passed(ctx, b)
		case b.Oversize > 0:
			// It has no end to be kept by. So what comes behind it waits until it is committed
			// as a reject: else the feed would be asked for what comes behind it.
			if err = s.passed(ctx, b); err == nil {
				err = s.settle(ctx)
			}
		default:
			err = s.put(ctx, b)
		}
		if err != nil {
			return err
		}
	}
}

// put puts a block's lines on disk, and offers it to the fold.
func (s *spooling) put(ctx context.Context, b *source.Block) error {
	mine, err := s.append(ctx, b)
	if err != nil {
		if ctx.Err() == nil {
			s.fail(err)
		}
		return err
	}
	if !mine || !s.offer(ctx, b) {
		s.stream.Release(b)
		signal(s.moved)
	}
	return nil
}

// append puts a block's lines on disk, when there is room. mine tells that the fold has
// all that came before, so that the block may be offered to it.
func (s *spooling) append(ctx context.Context, b *source.Block) (mine bool, err error) {
	lines := b.Data
	if b.Tail {
		lines = append(lines[:len(lines):len(lines)], '\n')
	}
	resume := s.lastResume(lines)
	said := false
	for waited := false; ; {
		full := s.spools() && s.log.Size() > 0 && s.log.Size()+int64(len(lines)) > s.max
		if !full {
			mine, err = s.take(b, lines, resume)
			s.measure()
		}
		switch {
		case !full && err == nil:
			if said {
				s.info("the spool has room again")
			}
			return mine, nil
		case !full && !spool.IsFull(err):
			return false, err
		case waited && !said && full:
			s.warn("the spool is full (%d bytes): reading waits for the database", s.log.Size())
			said = true
		case waited && !said:
			s.warn("the spool's disk is full: reading waits")
			said = true
		}
		if full && s.drained() {
			// What is left is the segment that is appended to.
			if err := s.forget(true); err != nil {
				return false, err
			}
			if s.log.Size() == 0 {
				continue
			}
		}
		select {
		case <-s.room:
		case <-time.After(roomPoll):
			waited = true
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// take appends a block's lines to the log. Where the fold has all that came before, the
// drain leaves the block to it.
func (s *spooling) take(b *source.Block, lines []byte, resume string) (mine bool, err error) {
	_, end := s.log.Bounds()
	s.mu.Lock()
	mine = s.next == end
	s.direct = mine
	s.mu.Unlock()
	if b.Spool, err = s.log.Append(lines, resume); err != nil && mine {
		s.mu.Lock()
		mine, s.direct = false, false
		s.mu.Unlock()
	}
	return mine, err
}

// offer gives the fold a block in memory, if it takes it soon.
func (s *spooling) offer(ctx context.Context, b *source.Block) (taken bool) {
	size := int64(len(b.Data)) // b is not ours when it is taken
	var soon <-chan time.Time
	if s.spools() {
		soon = time.After(patient)
	}
	select {
	case s.out <- b:
		taken = true
	case <-soon:
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.direct = false; taken {
		s.next += size
	}
	return taken
}

// passed gives the fold a block that is not put on disk, behind all that is.
func (s *spooling) passed(ctx context.Context, b *source.Block) error {
	for {
		s.mu.Lock()
		_, end := s.log.Bounds()
		b.Spool = s.next
		s.mu.Unlock()
		if b.Spool == end || !s.spools() {
			break
		}
		signal(s.moved)
		select {
		case <-time.After(patient):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	select {
	case s.out <- b:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// settle waits until the fold has committed all that it was given.
func (s *spooling) settle(ctx context.Context) error {
	settled := make(chan struct{})
	if err := s.passed(ctx, &source.Block{Settled: settled}); err != nil {
		return err
	}
	select {
	case <-settled:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// drain gives the fold what it was not given in memory.
func (s *spooling) drain(ctx context.Context) {
	for {
		s.mu.Lock()
		at, direct, err := s.next, s.direct, s.err
		_, end := s.log.Bounds()
		s.mu.Unlock()
		switch {
		case direct || at == end || !s.spools():
			if err != nil {
				return
			}
			select {
			case <-s.moved:
			case <-ctx.Done():
				return
			}
			continue
		}
		b, err := s.stream.Filled(func(p []byte) (int, error) { return s.log.ReadLines(p, at) })
		if err != nil {
			s.fail(err)
			return
		}
		b.Spool, b.Offset = at, at
		size := int64(len(b.Data))
		select {
		case s.out <- b:
		case <-ctx.Done():
			return
		}
		s.mu.Lock()
		s.next += size
		s.mu.Unlock()
	}
}

// tend syncs the log each period, and does away with what is committed.
func (s *spooling) tend(ctx context.Context) error {
	tick := time.NewTicker(s.period)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return s.log.Sync()
		}
		if err := s.log.Sync(); err != nil {
			return err
		}
		if err := s.forget(false); err != nil {
			return err
		}
	}
}

// forget removes the segments whose lines are committed. final says that there is
// nothing more to come. Where the capture's disk is full they stay for now.
func (s *spooling) forget(final bool) error {
	s.forgetting.Lock()
	defer s.forgetting.Unlock()
	s.mu.Lock()
	safe := s.safe
	if !s.spools() {
		_, safe = s.log.Bounds()
	}
	s.mu.Unlock()
	var keep func(time.Time, io.Reader) error
	if s.capture != nil {
		keep = s.capture.Add
	}
	before := s.log.Size()
	err := s.log.Forget(safe, final, keep)
	if s.log.Size() < before {
		signal(s.room)
	}
	if s.capture != nil && spool.IsFull(err) {
		if !s.saidFull {
			s.warn("the capture's disk is full: its lines stay where they are until there is room")
		}
		s.saidFull = true
		return nil
	}
	s.saidFull = false
	return err
}

// drained reports whether all that is on disk is committed.
func (s *spooling) drained() bool {
	_, end := s.log.Bounds()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.safe == end
}

// committed hears that the lines before an offset are.
func (s *spooling) committed(at int64) {
	s.mu.Lock()
	s.safe = max(s.safe, at)
	s.mu.Unlock()
	s.measure()
}

// measure sets the gauge of what is on disk and not committed.
func (s *spooling) measure() {
	if !s.spools() {
		return
	}
	s.mu.Lock()
	_, end := s.log.Bounds()
	s.gauge(max(0, end-s.safe))
	s.mu.Unlock()
}

// lastResume returns the last resume value among lines, "" where there is none.
func (s *spooling) lastResume(lines []byte) string {
	if s.resume == "" {
		return ""
	}
	var l feed.Line
	for len(lines) > 0 {
		at := bytes.LastIndexByte(lines[:len(lines)-1], '\n') + 1
		l.Scan(s.scan, nil, lines[at:len(lines)-1])
		if text, ok := resumeOf(&l, s.field); ok && l.Err == nil {
			return string(text)
		}
		lines = lines[:at]
	}
	return ""
}

// Next returns the next block, as a stream does.
func (s *spooling) Next(ctx context.Context) (*source.Block, error) {
	select {
	case b, ok := <-s.out:
		if !ok {
			return nil, s.err
		}
		return b, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Release gives a block back.
func (s *spooling) Release(b *source.Block) { s.stream.Release(b) }

// close ends the spool; what is committed of it goes, unless the disk failed.
func (s *spooling) close() error {
	if s == nil {
		return nil
	}
	var err error
	if s.log != nil {
		if s.failed == nil {
			err = s.forget(true)
		}
		if closed := s.log.Close(); s.failed == nil { // else the run says why it ended
			err = errors.Join(err, closed)
		}
	}
	if s.dir != nil {
		err = errors.Join(err, s.dir.Close())
	}
	if s.capture != nil {
		err = errors.Join(err, s.capture.Close())
	}
	return err
}
