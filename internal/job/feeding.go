package job

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/source"
)

// feeding is one source on its way into the table.
type feeding struct {
	*run
	stream *source.Stream
	ahead  *ahead
	job    string
	period time.Duration

	batch *fold.Batch
	full  chan work
	free  chan *fold.Batch

	seq   int64    // of the last batch handed over
	sent  position // of that batch
	pos   position // after the last line that was folded
	line  int64    // lines read, the one at hand included
	conn  int      // that brought the lines at hand; see [source.Block]
	heard heeding
	head  opening

	failed error // of reading

	tally          // of the source's lines so far
	restart   bool // the next flush replaces the rejects of the source
	tentative bool // the position is kept only when a message was taken
}

// tally counts what became of the lines of a source.
type tally struct {
	folded   int64 // in this run
	rejected int64
}

// work is a batch on its way to the sink.
type work struct {
	batch *fold.Batch
	cp    sink.Checkpoint
	tally

	resume        string        // of the checkpoint
	cursor        source.Cursor // the same
	readsDominate bool
	stopReading   func() // waits until nobody reads the batch's rows ahead
}

// sync reads, folds and flushes until the source or ctx ends.
func (f *feeding) sync(ctx context.Context) error {
	f.full, f.free = make(chan work), make(chan *fold.Batch, len(f.batches))
	for i := range f.batches {
		f.batches[i].Reset()
		f.free <- &f.batches[i]
	}
	// What was read is written even when reading was stopped, so flushing ends
	// only with an error; that ends reading too.
	g, flushing := errgroup.WithContext(context.WithoutCancel(ctx))
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(flushing, cancel)()
	var from blocks = f.stream
	if f.spool != nil {
		from = f.spool
		g.Go(func() error { f.spool.Run(reading); return nil })
	}
	f.ahead = newAhead(from, &f.names, f.limit)
	ready := make(chan work)
	g.Go(func() error { return f.flush(flushing, ready) })
	g.Go(func() error { f.pass(flushing, ready); return nil })
	g.Go(func() error { f.ahead.run(reading); return nil })
	g.Go(func() error {
		defer cancel() // whatever ends the fold ends the scan
		defer close(f.full)
		return f.fill(reading, flushing)
	})
	err := g.Wait()
	f.p.Buffer.Store(0)
	return errors.Join(f.failed, err)
}

// fill folds the lines of blocks until there are no more.
func (f *feeding) fill(reading, flushing context.Context) error {
	f.batch = <-f.free
	if err := f.hand(flushing); err != nil { // a mark for the file of rejects, where there is none
		return nil // the flusher has the error
	}
	for {
		b, err := f.next(reading, flushing)
		if err == nil {
			err = f.fold(flushing, b)
			f.ahead.release(b)
			f.p.Buffer.Store(int64(f.batch.Bytes()))
		}
		switch {
		case err == nil || err == errDue:
		case flushing.Err() != nil:
			return nil // the flusher has the error
		case reading.Err() != nil:
			return f.hand(flushing)
		case err == io.EOF || err == errTorn:
			if hint := f.head.ended(); hint != nil {
				return fmt.Errorf("%s: %w", f.stream.Name(), hint)
			}
			return f.hand(flushing)
		default:
			// What was read before it went wrong is good, and is written: so the
			// error must not end the flusher.
			f.failed = err
			return f.hand(flushing)
		}
	}
}

// errDue says that the batch at hand has waited for long enough.
var errDue = errors.New("the batch is due")

// next waits for a block, but not past the time at which the batch is due.
func (f *feeding) next(reading, flushing context.Context) (*scanned, error) {
	var due <-chan time.Time
	if f.period > 0 && !f.batch.First.IsZero() {
		wait := time.Until(f.batch.First.Add(f.period))
		if wait <= 0 && len(f.free) > 0 {
			if err := f.hand(flushing); err != nil {
				return nil, err
			}
		} else { // while the sink is busy the batch goes on filling
			timer := time.NewTimer(max(wait, f.period/16))
			defer timer.Stop()
			due = timer.C
		}
	}
	if err := reading.Err(); err != nil {
		return nil, err
	}
	select {
	case b, ok := <-f.ahead.blocks:
		if !ok {
			return nil, f.ahead.err
		}
		<-b.ready
		return b, nil
	case <-due:
		return nil, errDue
	case <-reading.Done():
		return nil, reading.Err()
	}
}

// errTorn is returned for a torn last line that is left for the next run.
var errTorn = errors.New("the last line has no end yet")

// fold folds the lines of a block.
func (f *feeding) fold(flushing context.Context, b *scanned) (err error) {
	if b.Settled != nil {
		return f.settle(flushing, b.Settled)
	}
	if b.Restart {
		f.line, f.head = 0, opening{} // what was read before is good, whatever comes now
	}
	if b.Conn != f.conn {
		f.conn, f.heard.repeats = b.Conn, 0
		f.heard.opening = !f.spool.Durable() // what is read back from the disk has no connection
	}
	before, at := f.line, 0
	if b.Oversize > 0 {
		at, err = f.oversize(b)
	} else {
		at, err = f.lines(flushing, b)
	}
	if n := len(b.lines); n > 0 && f.Feed.TimeField != "" {
		if t := feedTime(&b.lines[n-1], f.feedNames.time); !t.IsZero() {
			f.p.FeedTime.Store(t.UnixNano())
		}
	}
	f.p.Lines.Add(f.line - before)
	f.p.Bytes.Add(int64(at))
	if at > 0 {
		f.moveTo(b, at)
	}
	return err
}

// oversize rejects a line of which there is only the beginning. It returns 0 where the line
// does not count.
func (f *feeding) oversize(b *scanned) (at int, err error) {
	heard := f.heard
	err = f.reject(fold.Place{Line: f.line + 1, Offset: b.Offset}, bytes.TrimSuffix(b.Data, newline),
		feed.Errorf(feed.TooLong, "a line of %d bytes: at most %d (--max-line)", b.Oversize-1, f.Source.MaxLine))
	if errors.Is(err, ErrRejected) {
		f.heard = heard
		return 0, err
	}
	f.line++
	f.p.Bytes.Add(b.Oversize - int64(len(b.Data)))
	return len(b.Data), err
}

// moveTo notes that the lines of the block up to an index are folded.
func (f *feeding) moveTo(b *scanned, at int) {
	size := int64(at)
	if b.Oversize > 0 {
		size = b.Oversize
	}
	f.pos = position{line: f.line, offset: b.Offset + size, mark: mark{Source: b.CursorAfter(at), Feed: f.heard.feedMark}}
}

// lines folds the lines of a block and returns the index after the last one that
// counts.
func (f *feeding) lines(flushing context.Context, b *scanned) (at int, err error) {
	for i := range b.lines {
		if i%fold.MaxPrefetch == 0 {
			f.folder.Prefetch(f.batch, b.lines[i:min(i+fold.MaxPrefetch, len(b.lines))])
		}
		l := &b.lines[i]
		next := min(at+len(l.Text)+1, len(b.Data))
		if !l.Blank {
			place, heard := fold.Place{Line: f.line + 1, Offset: b.Offset + int64(at)}, f.heard
			if counts, err := f.message(l, place, b.Tail && next == len(b.Data)); err != nil {
				if counts {
					at, f.line = next, f.line+1
				} else {
					f.heard = heard // the next run meets the line again
				}
				return at, err
			}
		}
		at, f.line = next, f.line+1
		if f.batch.Rows() >= f.BatchRows || int64(f.batch.Bytes()) >= f.Buffer/2 || int64(f.batch.RejectBytes()) >= f.Buffer/rejectShare {
			f.moveTo(b, at)
			if err := f.hand(flushing); err != nil {
				return at, err
			}
		}
	}
	return at, nil
}

// rejectShare is the part of the buffer that a batch fills with rejected lines. A driver
// holds them again while it writes them, and each is garbage when it is written.
const rejectShare = 8

// message folds or rejects a line. Where it returns an error, which ends the
// source, counts tells whether the line was dealt with.
func (f *feeding) message(l *feed.Line, at fold.Place, tail bool) (counts bool, err error) {
	if f.batch.First.IsZero() {
		f.batch.First = time.Now()
	}
	f.head.see(l.Text)
	if f.Feed.heeded() && l.Err == nil {
		if pass, err := f.heed(l); err != nil {
			return true, fmt.Errorf("%s: %w", f.stream.Name(), err)
		} else if pass {
			return true, nil
		}
	}
	switch err := f.add(l, at).(type) {
	case nil:
		f.head.on = false
		return true, nil
	case *feed.Error:
		// The end of a followed file comes when another one has taken its place.
		if tail && err.Reason == feed.Truncated && f.stream.Traits().Named && !f.Source.Follow {
			f.Warn("%s: the last line (line %d, byte %d) has no end yet; it is left for the next run", f.stream.Name(), at.Line, at.Offset)
			return false, errTorn
		}
		if hint := f.head.bad(err); hint != nil {
			f.batch.Reset()
			f.pos = f.sent
			return false, fmt.Errorf("%s: %w", f.stream.Name(), hint)
		}
		err2 := f.reject(at, l.Text, err)
		return !errors.Is(err2, ErrRejected), err2
	default:
		return false, fmt.Errorf("%s line %d: %w", f.stream.Name(), at.Line, err)
	}
}

// add merges a line into the batch.
func (f *feeding) add(l *feed.Line, at fold.Place) error {
	if l.Err != nil {
		return l.Err
	}
	c := f.mapper.Map(l)
	return f.folder.Add(f.batch, &c, at)
}

// reject deals with a line that is no message.
func (f *feeding) reject(at fold.Place, line []byte, why *feed.Error) error {
	if f.batch.First.IsZero() {
		f.batch.First = time.Now()
	}
	if f.Feed.resumes(f.stream.Name()) && f.heard.again(line) {
		return nil // it was counted when it came first
	}
	f.p.Rejected(why.Reason).Add(1)
	f.rejected++
	switch f.Rejects.mode {
	case discard:
	case fail:
		return fmt.Errorf("%w: %s line %d (byte %d): %s", ErrRejected, f.stream.Name(), at.Line, at.Offset, why.Detail)
	default:
		f.batch.Reject(at, why, line)
	}
	return f.tooMany(why.Detail)
}

// tooMany ends a run whose feed is mostly bad.
func (f *feeding) tooMany(last string) error {
	if n := f.p.RejectedTotal(); n > f.MaxRejects {
		return fmt.Errorf("%d lines were rejected, more than --max-rejects %d; the last: %s", n, f.MaxRejects, last)
	}
	return nil
}

// hand gives the batch to the flusher, and takes an empty one. It does nothing
// where there is nothing to write.
func (f *feeding) hand(flushing context.Context) error {
	if f.batch.Empty() && !f.Rejects.unmarked && (f.job == "" || f.pos == f.sent) {
		f.batch.First = time.Time{}
		return nil
	}
	f.Rejects.unmarked = false
	cp, err := f.pos.checkpoint()
	if err != nil {
		return err
	}
	f.seq++
	f.folded += f.batch.Messages
	f.folder.Seal(f.batch)
	cp.Seq, cp.Settings = f.seq, f.settings
	w := work{batch: f.batch, tally: f.tally, resume: f.pos.mark.Feed.Resume, cursor: f.pos.mark.Source, cp: cp}
	select {
	case f.full <- w:
	case <-flushing.Done():
		return flushing.Err()
	}
	f.sent = f.pos
	select {
	case f.batch = <-f.free:
		return nil
	case <-flushing.Done():
		return flushing.Err()
	}
}

// settle tells the source when all that was folded is committed.
func (f *feeding) settle(flushing context.Context, settled chan<- struct{}) error {
	if err := f.hand(flushing); err != nil {
		return err
	}
	select {
	case b := <-f.free: // no batch is on its way
		f.free <- b
		close(settled)
		return nil
	case <-flushing.Done():
		return flushing.Err()
	}
}

// pruneEvery is how often a run looks for rejects that are old enough to be removed.
const pruneEvery = time.Hour

// rememberedFlushes is how far a database can go back, at least, for the lines that
// are lost to be named.
const rememberedFlushes = 1000

// flush writes batches until there are no more.
func (f *feeding) flush(ctx context.Context, ready <-chan work) error {
	var lines []int64 // after each of the last flushes
	refused := int64(0)
	for w := range ready {
		start := time.Now()
		flush := &sink.Flush{Batch: w.batch, Job: f.job, Source: f.stream.Name(), Checkpoint: w.cp, Run: f.id, KeepRejects: f.Rejects.mode == keep,
			Restart: f.restart, Rebuild: f.rebuilding(), Tombstones: f.Tombstones, ReadsDominate: w.readsDominate}
		if f.RejectsAge > 0 && f.RejectsAge < math.MaxInt64 && start.Sub(f.pruned) >= pruneEvery {
			flush.DropRejects = start.Add(-f.RejectsAge)
		}
		flush.BeforeCommit = func(rejects []fold.Reject, cp *sink.Checkpoint) error {
			refused := refused + int64(len(rejects)-len(w.batch.Rejects))
			cp.Rejected = w.rejected + refused
			if f.tentative && w.folded == refused && cp.Rejected > 0 {
				cp.Line, cp.Offset, cp.Mark = 0, 0, "" // so that a run with other settings reads them
			}
			return f.Rejects.write(flush, rejects, cp)
		}
		res, err := f.db.Flush(ctx, flush)
		w.stopReading()
		if err != nil {
			var behind sink.ErrBehind // else nothing that was committed is lost
			errors.As(err, &behind)
			if n := len(lines) - int(behind.Want-behind.Found); n > 0 {
				f.safe = lines[n-1]
			}
			return err
		}
		f.resumeFrom(w.resume)
		if f.spool != nil {
			f.spool.Committed(w.cursor)
		}
		if lines = append(lines, w.cp.Line); len(lines) == 2*rememberedFlushes {
			lines = append(lines[:0], lines[rememberedFlushes:]...)
		}
		if err := f.flushed(flush, start); err != nil {
			return err
		}
		f.restart = false
		refused += int64(len(res.Refused))
		took := time.Since(start)
		f.p.flushed(w.batch, res, took)
		f.readAhead.flushed(w.batch.Rows(), took)
		w.batch.Reset()
		f.free <- w.batch
		if n := len(res.Refused); n > 0 {
			if err := f.tooMany(res.Refused[n-1].Detail); err != nil {
				return err
			}
		}
	}
	return nil
}
