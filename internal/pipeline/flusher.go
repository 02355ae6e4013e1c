package pipeline

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/status"
)

// pruneEvery is how often a run removes rejected lines that are older than --keep-rejects.
const pruneEvery = time.Hour

// A flusher writes sets to the database.
type flusher struct {
	*run
	history *history
	full    chan *set
	free    chan<- *set
	queue   dbQueue
}

// laneFlushed is the flusher's state of a lane.
type laneFlushed struct {
	refused int64    // messages that the database rejected
	pos     position // of the last flush; before the first, where the lane begins
	safe    int64    // lines of this attempt that the database has; 0 once it was restored
}

// write writes sets until there are no more. Between them it does what the reader asks for, and
// executes SQL of the user's that is due.
func (f *flusher) write(ctx context.Context) error {
	for {
		select {
		case s, more := <-f.full:
			if !more {
				return nil
			}
			if err := f.writeSet(ctx, s); err != nil {
				return err
			}
		case q := <-f.queue:
			q.done <- q.do(ctx)
		case <-f.housekeeper.tick:
			f.housekeeper.run()
		}
	}
}

func (f *flusher) writeSet(ctx context.Context, s *set) error {
	if s.isEmpty() && !s.rebuild { // it carries only resume values or ended lanes
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
	if f.cfg.Rejects.Age > 0 && f.cfg.Rejects.Age < math.MaxInt64 && start.Sub(f.history.pruned) >= pruneEvery {
		flush.DropRejects = start.Add(-f.cfg.Rejects.Age)
	}
	res, err := sink.Retried(ctx, f.cfg.Retry, func() (sink.Result, error) { return f.db.Flush(ctx, flush) })
	if err != nil {
		return err
	}
	if err := f.committed(ctx, s, &res); err != nil {
		return err
	}
	if err := f.resume(s); err != nil {
		return err
	}
	if !flush.DropRejects.IsZero() {
		f.history.pruned = start
	}
	took := time.Since(start)
	if s.filled {
		f.history.rewrites.count(s.Set)
	}
	f.p.Flushed(f.flushed(s.Set, &res, took))
	s.reset()
	f.free <- s
	if n := len(res.Refused); n > 0 {
		if err := tooMany(f.cfg, f.p.Rejected(), res.Refused[n-1].Detail); err != nil {
			return err
		}
	}
	return nil
}

// resume passes on the resume values of a committed set.
func (f *flusher) resume(s *set) error {
	for _, value := range s.resumes {
		if err := f.cfg.Resume(value); err != nil {
			return err
		}
	}
	return nil
}

// flushed returns the counts of a flush.
func (f *flusher) flushed(s *fold.Set, res *sink.Result, took time.Duration) status.Flush {
	done := status.Flush{Took: took, Rows: s.Rows(), WritesPerRow: f.history.rewrites.perRow(), Tables: make([]status.TableCounts, len(s.Batches))}
	for i, b := range s.Batches {
		done.Tables[i] = status.TableCounts{Messages: b.Messages, Coalesced: b.Messages - int64(b.Rows())}
		if res.Tables != nil { // nil if nothing was written
			done.Tables[i].Rows = status.Rows(res.Tables[i])
		}
	}
	return done
}

func (f *flusher) flushOf(s *set) *sink.Flush {
	flush := &sink.Flush{Batches: s.Batches, Rejects: s.Rejects, Job: f.cfg.Job, Run: f.id, Lanes: make([]sink.Lane, len(s.lanes)), KeepRejects: f.cfg.Rejects.To == KeepRejects,
		Rebuild: s.rebuild, Tombstones: f.cfg.Tombstones, Sent: f.p.Sent}
	flush.Searching = func(now sink.Searching) error {
		f.p.Searching(now)
		switch {
		case now.Last == nil:
			return nil
		case f.cfg.Rejects.To == FailRejects:
			return rejectedError(&s.lanes[now.Last.Lane].lane.start, now.Last)
		}
		return tooMany(f.cfg, f.p.Rejected()+int64(now.Rejected), now.Last.Detail)
	}
	flush.BeforeCommit = func(rejects []fold.Reject) error {
		refused := make([]int64, len(s.lanes))
		for i := range rejects[len(s.Rejects):] {
			refused[rejects[len(s.Rejects)+i].Lane]++
		}
		for i := range s.lanes {
			flush.Lanes[i] = f.laneOf(&s.lanes[i], refused[i])
		}
		if f.cfg.Rejects.To == FailRejects && len(rejects) > 0 {
			return rejectedError(&s.lanes[rejects[0].Lane].lane.start, &rejects[0])
		}
		return nil
	}
	for i := range s.lanes { // the fence is checked first
		flush.Lanes[i] = f.laneOf(&s.lanes[i], 0)
	}
	return flush
}

// laneOf returns a lane of a flush. refused is how many of its messages the database rejected.
func (f *flusher) laneOf(l *setLane, refused int64) sink.Lane {
	refused += l.lane.flushed.refused
	out := sink.Lane{Source: l.lane.name, Unnamed: l.lane.unnamed, Restart: l.lane.replacesRejects(&l.cp), Checkpoint: l.cp}
	cp := &out.Checkpoint
	cp.Rejected = l.rejected + refused
	if l.lane.isTentative() && l.folded == refused && cp.Rejected > 0 {
		cp.Line, cp.Offset, cp.Mark = 0, 0, "" // so a run with other settings reads them
	}
	return out
}

func (f *flusher) committed(ctx context.Context, s *set, res *sink.Result) error {
	f.history.hasWritten = true
	for i := range res.Refused {
		l := s.lanes[res.Refused[i].Lane].lane
		l.flushed.refused++
		l.progress.Reject(&res.Refused[i])
	}
	for i := range s.lanes {
		at := &s.lanes[i]
		l := at.lane
		if l.src.Committed != nil {
			l.src.Committed(at.pos.mark.Source)
		}
		l.flushed.pos, l.flushed.safe = at.pos, at.pos.read
		l.progress.Committed(at.pos.read)
	}
	return f.release(ctx, s.ended)
}

// release releases the claims of lanes that are done.
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
	return f.cfg.Retry.Do(ctx, func() error { return f.claims.Drop(ctx, names...) })
}
