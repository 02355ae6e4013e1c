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

// writeSet commits a set and returns it to the reader. A set may have nothing for the database, but resume values or
// ended lanes.
func (f *flusher) writeSet(ctx context.Context, s *set) (err error) {
	var refused []fold.Reject
	if !s.isEmpty() || s.rebuild {
		if refused, err = f.flush(ctx, s); err != nil {
			return err
		}
	}
	if err := errors.Join(f.release(ctx, s.ended), f.passResumes(s)); err != nil {
		return err
	}
	s.reset()
	f.free <- s
	if n := len(refused); n > 0 {
		return tooMany(f.cfg, f.p.Rejected(), refused[n-1].Detail)
	}
	return nil
}

// flush writes a set to the database, and returns the messages that this has rejected.
func (f *flusher) flush(ctx context.Context, s *set) (refused []fold.Reject, err error) {
	start := time.Now()
	f.p.Flushing(s.Rows())
	defer f.p.FlushEnded()
	flush := f.flushOf(s)
	if f.cfg.Rejects.Age > 0 && f.cfg.Rejects.Age < math.MaxInt64 && start.Sub(f.history.pruned) >= pruneEvery {
		flush.DropRejects = start.Add(-f.cfg.Rejects.Age)
	}
	res, err := sink.Retried(ctx, f.cfg.Retry, func() (sink.Result, error) { return f.db.Flush(ctx, flush) })
	if err != nil {
		return nil, err
	}
	if !flush.DropRejects.IsZero() {
		f.history.pruned = start
	}
	f.committed(s, &res, time.Since(start))
	return res.Refused, nil
}

// passResumes passes on the resume values of a committed set.
func (f *flusher) passResumes(s *set) error {
	for _, value := range s.resumes {
		if err := f.cfg.Resume(value); err != nil {
			return err
		}
	}
	return nil
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

// committed records and counts what a flush has committed.
func (f *flusher) committed(s *set, res *sink.Result, took time.Duration) {
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
	if s.filled {
		f.history.rewrites.count(s.Set)
	}
	counts := make([]status.TableCounts, len(s.Batches))
	for i, b := range s.Batches {
		counts[i] = status.TableCounts{Messages: b.Messages, Coalesced: b.Messages - int64(b.Rows())}
		if res.Tables != nil { // nil if nothing was written
			counts[i].Rows = status.Rows(res.Tables[i])
		}
	}
	f.p.Flushed(took, counts, f.history.rewrites.perRow())
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
