package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/weirsync/weir/internal/progress"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/source"
)

// resentRows is the default --batch-rows of resend. It limits the SQL, which contains the IDs of a batch's lines.
const resentRows = 10_000

// Resent are rejected lines of one source that are to be folded again.
type Resent struct {
	Source string
	// Each calls a function with each line, in the order in which they were rejected, until it returns an error. Lines
	// that are rejected while it runs are not among them. It may be called again.
	Each func(ctx context.Context, each func(sink.Kept) error) error
}

// Resend folds rejected lines again, with the settings of a run of their job. It ignores Kind and Sources of the
// configuration. A flush removes the lines it was made of, in its transaction; lines that are rejected again keep their
// ID and get the new reason. No checkpoint of the source changes. claims belong to the job.
func Resend(ctx context.Context, c Config, lines Resent, db sink.Sink, claims sink.Claims, p *progress.Progress) error {
	c.Kind, c.Sources = lines.kind(), []string{lines.Source}
	c.Rejects = RejectRules{To: Rejects{mode: keep}, Max: math.MaxInt64}
	c.BatchRows = cmp.Or(c.BatchRows, resentRows)
	for h := newHistory(c.Tables); ; {
		r := newRun(&c, db, claims, p) // a new run: lines that the last attempt committed no longer exist
		a, err := r.begin(ctx, h, nil)
		if err != nil {
			return err
		}
		for plan := a.folding.plan; plan != nil; plan = plan.whole {
			plan.mapper.Undescribed = true
		}
		if err := a.admitResent(ctx, lines.Source); err != nil {
			return err
		}
		err = a.read(ctx)
		a.folding.countPassed(p)
		var unlogged sink.ErrUnlogged
		constrained := errors.As(err, &unlogged)
		if err == nil || !constrained && !errors.As(err, new(sink.BehindError)) && !errors.As(err, new(sink.ErrChanged)) {
			return cmp.Or(err, ctx.Err())
		}
		if err := h.rewinds.count(err); err != nil {
			return err
		}
		h.constrained = h.constrained || constrained
		c.Log.Warn(fmt.Sprintf("%v; sending again what is left", err))
	}
}

// admitResent returns an error if the source was read with other settings than the current ones.
func (a *attempt) admitResent(ctx context.Context, name string) error {
	found, err := a.run.claims.Checkpoints(ctx, name)
	if err != nil || a.run.cfg.Restart.AcceptSettings || found[0].Settings == "" {
		return err
	}
	was, err := parseSettings(found[0].Settings)
	if err != nil {
		return err
	}
	now := a.admission.settings
	maps.DeleteFunc(was.Flags, func(flag, _ string) bool { // settings of the kind of source: its lines are read already
		_, ok := now.Flags[flag]
		return !ok && !slices.Contains(narrowingKeys, strings.ReplaceAll(flag, "-", "_"))
	})
	if words, _, _ := changes(&was, &now); len(words) > 0 {
		return SettingsError{fmt.Sprintf("job %q has read %s with other settings: %s (give the flags or the --config of its weir sync; --accept-settings resends the lines under the settings given here)", a.run.cfg.Job, name, strings.Join(words, ", "))}
	}
	return nil
}

// kind returns a source kind that reads the lines. Its lane is unnamed, so no run resumes it.
func (r Resent) kind() source.Kind {
	return source.Kind{
		Traits: func(string) source.Traits { return source.Traits{Live: true} },
		Open: func(_ context.Context, names []string, _ source.Options) (source.Source, error) {
			return source.Series(names, func(context.Context, string, source.Point) (source.Stream, error) {
				return newResentLane(r), nil
			}), nil
		},
	}
}

// A resentLane returns rejected lines, each in a block of its own.
type resentLane struct {
	of     Resent
	lines  chan sink.Kept // closed after err is set
	err    error
	ctx    context.Context // ends fill
	cancel context.CancelFunc
	start  sync.Once
	done   chan struct{} // closed when fill has returned

	mu  sync.Mutex
	ids []int64 // lines that were handed over and are not committed
	// first is how many lines were handed over before ids.
	first int64
}

func newResentLane(of Resent) *resentLane {
	l := &resentLane{of: of, lines: make(chan sink.Kept), done: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// resends returns the resent lines behind a lane, or nil if it is another lane.
func (l *lane) resends() *resentLane {
	r, _ := source.As[*resentLane](l.source)
	return r
}

// Begun implements [source.Lane].
func (l *resentLane) Begun() source.Begun { return source.Begun{Once: true} }

// NextEvent implements [source.Stream].
func (l *resentLane) NextEvent(ctx context.Context) (e source.Event, err error) {
	l.start.Do(func() { go l.fill() })
	select {
	case k, more := <-l.lines:
		if !more {
			return e, cmp.Or(l.err, io.EOF)
		}
		l.mu.Lock()
		l.ids = append(l.ids, k.ID)
		l.mu.Unlock()
		b := &source.Block{Data: append(k.Text[:len(k.Text):len(k.Text)], '\n'), Offset: k.Offset, Line: max(k.Line, 1), Next: k.Offset}
		b.Records = []source.Record{{Offset: k.Offset, End: len(b.Data)}}
		return source.Event{Kind: source.Data, Lane: l.of.Source, Block: b}, nil
	case <-ctx.Done():
		return e, ctx.Err()
	}
}

// fill reads the lines.
func (l *resentLane) fill() {
	defer close(l.done)
	defer close(l.lines)
	l.err = l.of.Each(l.ctx, func(k sink.Kept) error {
		select {
		case l.lines <- k:
			return nil
		case <-l.ctx.Done():
			return l.ctx.Err()
		}
	})
	if l.ctx.Err() != nil { // reading was stopped
		l.err = nil
	}
}

// between returns the IDs of the lines after the first from, up to to, in the order in which the lane was read. It
// forgets the lines before them.
func (l *resentLane) between(from, to int64) []int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ids, l.first = l.ids[from-l.first:], from
	return slices.Clone(l.ids[:to-from])
}

// Stop implements [source.Stream].
func (l *resentLane) Stop() { l.cancel() }

// Close implements [source.Stream].
func (l *resentLane) Close() error {
	l.cancel()
	l.start.Do(func() { close(l.done) })
	<-l.done
	return nil
}
