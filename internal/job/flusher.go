package job

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/progress"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/source"
)

// pruneEvery is how often a run looks for rejects that are old enough to be removed.
const pruneEvery = time.Hour

// rememberedFlushes is how far a database can be restored, at least, for the lines that
// are lost to be named.
const rememberedFlushes = 1000

// A flusher writes sets.
type flusher struct {
	*run
	full    <-chan *set
	free    chan<- *set
	flushes int64 // that were committed
	// unrepeatable are lanes that cannot be read again.
	unrepeatable []*lane
	ended        bool // a lane was read to its end
	outbox       *outbox
}

// laneFlushed is what the flusher knows of a lane.
type laneFlushed struct {
	refused int64       // messages that the database rejected
	last    []laneFlush // the last of its flushes, while there are lanes that cannot be read again
	pos     position    // of the last of them; where the lane begins before the first
	safe    int64       // lines that this attempt has read and the database has
}

// laneFlush is a flush that had a lane.
type laneFlush struct {
	number int64 // among all flushes, from 1
	read   int64 // lines of the lane that this attempt had read by then
}

// write writes sets until there are no more, and removes old rows between them. When stop is
// closed, it leaves those to the next run.
func (f *flusher) write(ctx context.Context, stop <-chan struct{}) error {
	for {
		if err := f.expireStep(ctx); err != nil {
			return err
		}
		select {
		case s, more := <-f.full:
			if !more {
				if err := f.outbox.finish(ctx, f, stop); err != nil {
					return err
				}
				return f.expireAll(ctx, stop)
			}
			if err := f.writeSet(ctx, s); err != nil {
				return err
			}
		case a := <-f.asks:
			a.err = a.do(ctx)
			close(a.done)
		case <-f.expiryDue():
		case <-f.outbox.woken():
			if err := f.outbox.pass(ctx, f); err != nil {
				return err
			}
		case <-f.outbox.retryDue():
			if err := f.outbox.pass(ctx, f); err != nil {
				return err
			}
		case a := <-f.outbox.answered():
			if err := f.outbox.took(ctx, f, a); err != nil {
				return err
			}
		}
	}
}

// writeSet writes a set.
func (f *flusher) writeSet(ctx context.Context, s *set) error {
	f.ended = f.ended || len(s.ended) > 0
	if s.isEmpty() && !s.rebuild { // there is only what is to be told
		if err := errors.Join(f.resume(s), f.release(ctx, s.ended)); err != nil {
			return err
		}
		s.reset()
		f.free <- s
		return nil
	}
	start := time.Now()
	f.p.Flushing(s.Rows())
	defer f.p.FlushEnded()
	flush := f.flushOf(s)
	if f.RejectsAge > 0 && f.RejectsAge < math.MaxInt64 && start.Sub(f.pruned) >= pruneEvery {
		flush.DropRejects = start.Add(-f.RejectsAge)
	}
	res, err := f.flush(ctx, flush)
	if err != nil {
		f.noteLost(s, err)
		return err
	}
	if err := f.committed(ctx, s, flush, &res); err != nil {
		return err
	}
	if err := f.resume(s); err != nil {
		return err
	}
	if !flush.DropRejects.IsZero() {
		f.pruned = start
	}
	took := time.Since(start)
	f.p.Flushed(flushed(s.Set, &res, took))
	s.reset()
	f.free <- s
	if n := len(res.Refused); n > 0 {
		if err := f.tooMany(res.Refused[n-1].Detail); err != nil {
			return err
		}
	}
	return nil
}

// resume passes on the values from which the source of a set that is committed resumes.
func (f *flusher) resume(s *set) error {
	for _, value := range s.resumes {
		if err := f.Resume(value); err != nil {
			return err
		}
	}
	return nil
}

// flushed returns what is counted of a flush.
func flushed(s *fold.Set, res *sink.Result, took time.Duration) progress.Flush {
	f := progress.Flush{Took: took, Rows: s.Rows(), Tables: make([]progress.TableFlush, len(s.Batches))}
	for i, b := range s.Batches {
		f.Tables[i] = progress.TableFlush{Messages: b.Messages, Coalesced: b.Messages - int64(b.Rows())}
		if res.Tables != nil { // else the set was only looked at
			f.Tables[i].Rows = progress.Rows(res.Tables[i])
		}
	}
	return f
}

// flushOf returns the flush of a set.
func (f *flusher) flushOf(s *set) *sink.Flush {
	flush := &sink.Flush{Batches: s.Batches, Grows: f.Star != nil, Rejects: s.Rejects, Job: f.Job, Run: f.id, Lanes: make([]sink.Lane, len(s.lanes)), KeepRejects: f.Rejects.mode == keep || f.Rejects.mode == toTopic,
		Rebuild: s.rebuild, Tombstones: f.Tombstones, Sent: f.p.Sent}
	flush.BeforeCommit = func(rejects []fold.Reject) error {
		refused := make([]int64, len(s.lanes))
		for i := range rejects[len(s.Rejects):] {
			refused[rejects[len(s.Rejects)+i].Lane]++
		}
		for i := range s.lanes {
			flush.Lanes[i] = f.laneOf(&s.lanes[i], refused[i])
		}
		if f.Rejects.mode == fail && len(rejects) > 0 {
			return rejectedError(&s.lanes[rejects[0].Lane].lane.start, &rejects[0])
		}
		return f.Rejects.write(flush, rejects)
	}
	for i := range s.lanes { // the fence is asked before all else
		flush.Lanes[i] = f.laneOf(&s.lanes[i], 0)
	}
	return flush
}

// laneOf returns a lane of a flush, of whose messages the database has refused some.
func (f *flusher) laneOf(l *setLane, refused int64) sink.Lane {
	refused += l.lane.flushed.refused
	out := sink.Lane{Source: l.lane.name, Unnamed: l.lane.unnamed, Restart: l.restart, Checkpoint: l.cp}
	cp := &out.Checkpoint
	cp.Rejected = l.rejected + refused
	if l.tentative && l.folded == refused && cp.Rejected > 0 {
		cp.Line, cp.Offset, cp.Mark = 0, 0, "" // so that a run with other settings reads them
	}
	return out
}

// committed notes what a flush has done.
func (f *flusher) committed(ctx context.Context, s *set, flush *sink.Flush, res *sink.Result) error {
	f.hasWritten = true
	f.flushes++
	for i := range res.Refused {
		l := s.lanes[res.Refused[i].Lane].lane
		l.flushed.refused++
		l.progress.Reject(&res.Refused[i])
	}
	for i := range s.lanes {
		at := &s.lanes[i]
		l := at.lane
		if ack, ok := source.As[source.Acker](l.source); ok {
			ack.Committed(at.pos.mark.Source)
		}
		l.flushed.pos, l.flushed.safe = at.pos, at.pos.read
		l.progress.Committed(at.pos.read)
		if !l.repeats && l.flushed.last == nil {
			f.unrepeatable = append(f.unrepeatable, l)
		}
		if len(f.unrepeatable) == 0 {
			continue
		}
		if l.flushed.last = append(l.flushed.last, laneFlush{f.flushes, at.pos.read}); len(l.flushed.last) == 2*rememberedFlushes {
			l.flushed.last = append(l.flushed.last[:0], l.flushed.last[rememberedFlushes:]...)
		}
	}
	f.outbox.committed(flush, len(s.Rejects)+len(res.Refused))
	if err := f.Rejects.committed(flush); err != nil {
		return err
	}
	return f.release(ctx, s.ended)
}

// release drops the claims of lanes that are done.
func (f *flusher) release(ctx context.Context, lanes []*lane) error {
	var names []string
	for _, l := range lanes {
		if !l.unnamed {
			names = append(names, l.name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return f.claims.Drop(ctx, names...)
}

// noteLost notes which lines the database has lost where an error says that it was restored to
// an earlier state: those of all flushes since the last one that it has of the lane which was
// looked at.
func (f *flusher) noteLost(s *set, err error) {
	var behind sink.BehindError // else nothing that was committed is lost
	if !errors.As(err, &behind) {
		return
	}
	found := int64(0) // the number of that flush; 0 where it is not remembered
	for i := range s.lanes {
		last := s.lanes[i].lane.flushed.last
		if n := len(last) - int(behind.Want-behind.Found); s.lanes[i].lane.name == behind.Lane && n > 0 {
			found = last[n-1].number
		}
	}
	for _, l := range f.unrepeatable {
		l.flushed.safe = 0
		for _, at := range l.flushed.last {
			if at.number <= found {
				l.flushed.safe = at.read
			}
		}
	}
}
