package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/source"
)

// A history is what a run has learned in its attempts. An attempt changes only fields whose comments name an owner, and
// ends, before its goroutines start.
type history struct {
	declared    int  // how many of the tables are configured
	constrained bool // a table that seemed to have no constraints has rejected a row: all batches keep their messages
	rewinds     rewinds
	fences      fences
	ends        map[string]int64 // end offsets of a catalog's lanes when the run began
	nameless    bool             // another group member has the same name
	// counted is, by lane, up to which offset the attempts have counted lines that they rejected before the database
	// saw them. Lines that are read again are not counted again.
	counted map[string]int64

	streamNames map[string]string // see settings.Names; owned by the reader
	keyless     map[string]bool   // see settings.Keyless; owned by the reader

	hasWritten bool      // the run has committed a flush; owned by the flusher
	pruned     time.Time // when old rejects were last removed; owned by the flusher
	rewrites   rewrites  // owned by the flusher
}

func newHistory(declared int) *history {
	return &history{declared: declared, streamNames: map[string]string{}, keyless: map[string]bool{}, counted: map[string]int64{}, fences: fences{times: map[string]int{}}, rewrites: rewrites{rows: map[sampledRow]bool{}}}
}

// maxRewinds is how often a run rewinds in a row: until a minute (calm) passes without a rewind. A server that is
// restored more often cannot be relied on.
const (
	maxRewinds = 10
	calm       = time.Minute
)

// rewinds counts the rewinds of a run.
type rewinds struct {
	inRow int
	last  time.Time
}

// count counts a rewind. After too many it returns the reason as the run's error.
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

// fences are the sources that other runs have written to since this run claimed them. The first time, that may have been
// the last flush of a killed run, which arrived after its claim was released: the source still belongs to this run. The
// second time it is lost: another run has it now.
type fences struct {
	times map[string]int // by source
	lost  int            // how many are lost
	err   error          // names them
}

func (f *fences) isLost(source string) bool { return f.times[source] > 1 }

// note records which sources another run has written to.
func (f *fences) note(err sink.FencedError, why error) {
	for _, name := range err.Lanes {
		if f.times[name]++; f.times[name] == 2 {
			f.lost++
		}
	}
	if f.lost > 0 {
		f.err = why
	}
}

// rewind begins a new attempt from the database's checkpoints if that can resolve the error. Otherwise it returns the
// error.
func (a *attempt) rewind(ctx context.Context, err error) (*attempt, error) {
	h := a.history
	fenced, isFenced := errors.AsType[sink.FencedError](err)
	switch {
	case a.inGroup && isFenced:
		a.p.Fenced() // the group decides who has the lanes: the run joins it again
	case errors.Is(err, source.ErrNewLane):
	case errors.Is(err, source.ErrNameTaken):
		h.nameless = true
	case isFenced:
		if h.fences.note(fenced, err); h.fences.lost == a.known {
			return nil, h.fences.err
		}
	case errors.As(err, new(sink.BehindError)):
		for _, l := range a.lanes {
			l.flushed.safe = 0 // how much it still has is not known
		}
	case errors.As(err, new(sink.UnloggedError)):
		h.constrained = true
	case !errors.As(err, new(sink.ChangedError)):
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
	a.cfg.Log.Warn(fmt.Sprintf("%v; reading again from the database's checkpoint", err))
	var names []string
	for _, l := range a.lanes {
		l.progress.Settle(false)
		h.counted[l.name] = max(h.counted[l.name], l.reading.counted)
		names = append(names, l.name)
	}
	if err := a.cfg.Retry.Do(ctx, func() error { return a.claims.Drop(ctx, names...) }); err != nil {
		return nil, err
	}
	return a.begin(ctx, h, a.tables)
}

// unfinished records where an error left the lanes, and adds to the error how many lines are lost.
func (a *attempt) unfinished(err error) error {
	failed, ok := errors.AsType[*sink.Error](err)
	unanswered := ok && (failed.Class == sink.Unknown || failed.Reason == "connection") // the commit's answer may have been lost
	restored := errors.As(err, new(sink.BehindError))
	for _, l := range a.lanes {
		if l.reading.ended && l.flushed.safe == l.reading.read {
			continue
		}
		s := l.stop(l.flushed.pos)
		s.Lost = l.lost()
		a.p.Stopped(s)
		perhaps := ""
		if unanswered || restored {
			perhaps = "perhaps "
		}
		if s.Lost > 0 {
			err = fmt.Errorf("%w; lines of %s that were read and %snot committed: %d. They are lost unless they are sent again", err, l.name, perhaps, s.Lost)
		}
	}
	return err
}
