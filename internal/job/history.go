package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/source"
)

// A history is what a run has learned in its attempts. While one lasts, each field has one owner, which may change it.
type history struct {
	tables      []Table // as the database names them; those that messages have added come last
	declared    int     // of these, the ones of the configuration
	constrained bool    // a table has refused a row
	rewinds     rewinds
	fences      fences
	ends        map[string]int64 // of the lanes of a catalog, when the run began
	nameless    bool             // another member of the group has the run's name

	streamNames map[string]string // see settings.Names: the reader's
	keyless     map[string]bool   // see settings.Keyless: the reader's

	hasWritten bool      // the job has written to the tables: the flusher's
	pruned     time.Time // when old rejects were last removed: the flusher's
}

func newHistory(tables []Table) *history {
	return &history{tables: slices.Clone(tables), declared: len(tables), streamNames: map[string]string{}, keyless: map[string]bool{}, fences: fences{moved: map[string]bool{}, lost: map[string]bool{}}}
}

// maxRewinds is how often a run rewinds in a row: until a minute (calm) passes without a
// rewind. A server that is restored more often cannot be relied on.
const (
	maxRewinds = 10
	calm       = time.Minute
)

// rewinds are a run's rewinds.
type rewinds struct {
	inRow int
	last  time.Time
}

// count counts a rewind for a reason, which it returns as the run's error after too many.
func (r *rewinds) count(why error) error {
	if time.Since(r.last) > calm {
		r.inRow = 0
	}
	if r.inRow == maxRewinds {
		return fmt.Errorf("%w (for the %dth time)", why, r.inRow+1)
	}
	r.inRow, r.last = r.inRow+1, time.Now()
	return nil
}

// fences are the sources that other runs have written since they were claimed.
type fences struct {
	moved map[string]bool // once
	lost  map[string]bool // more than once: they are theirs
	err   error           // names these
}

// note notes which sources other runs have written. The first time that may have been the last
// flush of a run that was killed, which came after its claim was released: then the source
// is still this run's.
func (f *fences) note(err sink.FencedError, why error) {
	for _, name := range err.Lanes {
		if f.moved[name] {
			f.lost[name] = true
		}
		f.moved[name] = true
	}
	if len(f.lost) > 0 {
		f.err = why
	}
}

// rewind has the run read again from the database's checkpoints, where an error says that
// this helps; other errors it returns.
func (a *attempt) rewind(ctx context.Context, err error) (*attempt, error) {
	var behind sink.BehindError
	var fenced sink.FencedError
	var unlogged sink.ErrUnlogged
	var changed sink.ErrChanged
	h := a.history
	switch {
	case a.inGroup && errors.As(err, &fenced):
		a.run.p.Fenced() // the group knows who has the lanes: the run joins it again
	case errors.Is(err, source.ErrNewLane):
	case errors.Is(err, source.ErrNameTaken):
		h.nameless = true
	case errors.As(err, &fenced):
		if h.fences.note(fenced, err); len(h.fences.lost) == a.known {
			return nil, h.fences.err
		}
	case !errors.As(err, &behind) && !errors.As(err, &unlogged) && !errors.As(err, &changed):
		return nil, err
	}
	if slices.ContainsFunc(a.lanes, func(l *lane) bool { return l.lost() > 0 }) {
		return nil, err
	}
	if !errors.Is(err, source.ErrNewLane) { // a new lane is not an error
		if err := h.rewinds.count(err); err != nil {
			return nil, err
		}
	}
	h.constrained = h.constrained || unlogged.Err != nil
	a.run.cfg.Log.Warn(fmt.Sprintf("%v; reading again from the database's checkpoint", err))
	var names []string
	for _, l := range a.lanes {
		l.progress.Drop()
		names = append(names, l.name)
	}
	if err := a.run.claims.Drop(ctx, names...); err != nil {
		return nil, err
	}
	return a.run.begin(ctx, h, a.folding)
}

// unfinished notes where an error has left the lanes, and returns the error with how many lines it has lost.
func (a *attempt) unfinished(err error) error {
	perhaps := "" // the answer to a commit may have been lost
	if failed, ok := errors.AsType[*sink.Error](err); ok && (failed.Class == sink.Unknown || failed.Reason == "connection") {
		perhaps = "perhaps "
	}
	for _, l := range a.lanes {
		if l.reading.ended && l.flushed.safe == l.reading.read {
			continue
		}
		s := l.stop(l.flushed.pos)
		s.Lost = l.lost()
		a.run.p.Stopped(s)
		if s.Lost > 0 {
			err = fmt.Errorf("%w; lines of %s that were read and %snot committed: %d. They are lost unless they are sent again", err, l.name, perhaps, s.Lost)
		}
	}
	return err
}
