package pipeline

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/source"
)

// An attempt reads all sources from their checkpoints to their ends. If it fails, a run may begin another one.
type attempt struct {
	*run
	history  *history
	check    *resumeCheck
	tables   *tables
	settings settings // for the next checkpoints. Names and Keyless are the history's, and grow
	claimer  *claimer
	latest   start   // the job's most recent checkpoint
	known    int     // number of lanes at the attempt's start
	inGroup  bool    // the consumer group assigns the run's lanes; see [source.Member]
	lanes    []*lane // that were opened; set when the pipeline has ended
	unread   *unreadFiles
}

// begin reads the tables and begins an attempt for them. before are the tables of the previous attempt, or nil.
func (r *run) begin(ctx context.Context, h *history, before *tables) (*attempt, error) {
	var keyErr error
	tables := r.cfg.Plan.Tables
	found, err := r.readTables(ctx, tableKeys(tables)...)
	switch {
	case err == nil:
	case !errors.As(err, new(sink.KeyError)):
		return nil, r.placed(ctx, err)
	case !r.cfg.Restart.Rebuild:
		keyErr = r.placed(ctx, err) // the checkpoint may explain it better: changed settings
	}
	for i := range found {
		tables[i].Name = found[i].Name
	}
	a := &attempt{run: r, history: h, unread: &unreadFiles{run: r},
		check: &resumeCheck{run: r, history: h, tables: tables, found: found, keyErr: keyErr, settings: settingsOf(r.cfg, tables[:h.declared])}}
	a.settings = a.check.settings
	a.settings.Names, a.settings.Keyless = h.streamNames, h.keyless
	a.tables, err = r.newTables(h, before, found)
	return a, err
}

// placed returns the faults of all tables that cannot be read, with their places in the config file. err is the first, or
// why the database cannot be read.
func (r *run) placed(ctx context.Context, err error) error {
	if errors.As(err, new(*sink.Error)) || ctx.Err() != nil {
		return err
	}
	var faults []error
	for _, t := range r.cfg.Plan.Tables {
		if _, err := r.readTables(ctx, tableKeys([]*mapping.TablePlan{t})...); err != nil {
			faults = append(faults, r.cfg.Plan.Fault(t, "key", err))
		}
	}
	return cmp.Or(errors.Join(faults...), err)
}

// read reads the sources, and folds and writes their lines.
func (a *attempt) read(ctx context.Context) error {
	src, starts, err := a.open(ctx)
	if err == nil {
		p := a.newPipeline(starts)
		err = p.run(ctx, src)
		a.settle(ctx, p, err)
	}
	if src != nil { // what was read is committed, or never will be
		if closing := src.Close(); closing != nil && !errors.Is(err, closing) { // otherwise it has ended reading
			err = errors.Join(err, closing)
		}
	}
	return err
}

// open opens the sources as one, and returns where each lane continues. A source that is returned with an error must be
// closed, too.
func (a *attempt) open(ctx context.Context) (src source.Source, starts []start, err error) {
	names, src, err := a.findLanes(ctx)
	if err != nil {
		return src, nil, err
	}
	a.known = len(names)
	names = slices.DeleteFunc(names, a.history.fences.isLost)
	if starts, err = a.findStarts(ctx, names); err != nil {
		return src, nil, err
	}
	for i := range starts {
		a.settings.learn(&starts[i])
	}
	member, inGroup := src.(source.Member)
	if a.inGroup = inGroup; inGroup {
		a.housekeeper.leads = member.Leads
		return src, starts, a.prepareGroup(ctx, member, starts)
	}
	if src == nil {
		if src, err = a.cfg.Kind.Open(ctx, names, a.sourceOptions()); err == nil {
			src = a.spooled(src, starts)
		}
	}
	return src, starts, err
}

// settle records where the pipeline has left its lanes. err is what it has ended with.
func (a *attempt) settle(ctx context.Context, p *pipeline, err error) {
	a.lanes = p.opener.lanes
	for _, l := range a.lanes {
		if err == nil && ctx.Err() != nil && p.reader.builder.open[l] {
			a.p.Stopped(l.stop(l.reading.pos))
		}
		l.progress.Close()
		if err == nil {
			l.progress.Settle(ctx.Err() == nil)
		}
	}
}

// A pipeline holds the goroutines of an attempt.
type pipeline struct {
	opener  *opener
	scans   *scanPool
	reader  *reader
	flusher *flusher
}

func (a *attempt) newPipeline(starts []start) *pipeline {
	r, c := a.run, a.cfg
	p := &pipeline{scans: newScanPool(r.names, r.limit)}
	full, free, queue := make(chan *set), make(chan *set, 2), make(dbQueue)
	for range 2 {
		s := newSet(len(c.Plan.Tables))
		s.Unsplit, s.Whole = r.dryRun, r.dryRun && c.Buffer == math.MaxInt64
		free <- s
	}
	a.claimer = &claimer{run: r, check: a.check, fences: &a.history.fences, inGroup: a.inGroup, starts: starts, claimed: map[string]*start{}}
	p.opener = &opener{run: r, claimer: a.claimer, scans: p.scans}
	b := &setBuilder{run: r, full: full, free: free, tables: a.tables, settings: &a.settings, open: map[*lane]bool{}}
	if c.Restart.Rebuild && !slices.ContainsFunc(starts, func(s start) bool { return a.check.hasBegun(&s) }) {
		b.rebuild = rebuildDue
	}
	p.reader = &reader{run: r, tables: a.tables, builder: b, scans: p.scans, unread: a.unread, counted: a.history.counted, scan: feed.NewScanner(r.names),
		adder: &tableAdder{run: r, check: a.check, latest: &a.latest, tables: a.tables, settings: &a.settings, queue: queue, unfit: map[string]*feed.Error{}}}
	p.flusher = &flusher{run: r, history: a.history, full: full, free: free, queue: queue}
	return p
}

// run reads the source, folds its lines and writes them, until all goroutines have ended.
func (p *pipeline) run(ctx context.Context, src source.Source) error {
	// When reading is stopped, what was read is still folded and written. Flushing ends early only with an error, such
	// as an unavailable database, which ends folding and reading too.
	g, flushing := errgroup.WithContext(context.WithoutCancel(ctx))
	folding, cancel := context.WithCancel(flushing)
	defer cancel()
	reading, stop := context.WithCancel(folding)
	defer stop()
	defer context.AfterFunc(ctx, stop)()
	g.Go(func() error { return p.flusher.write(flushing) })
	g.Go(func() error {
		p.scans.run(func() error { return p.opener.read(reading, folding, src) })
		return nil
	})
	g.Go(func() error {
		defer cancel() // the end of the fold ends reading
		defer close(p.flusher.full)
		return p.reader.fill(reading, flushing)
	})
	err := errors.Join(g.Wait(), p.reader.failed)
	p.reader.p.SetBuffer(0)
	p.scans.discard()
	return err
}
