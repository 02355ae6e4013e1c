package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/status"
)

// A start is a source of the run and where it continues.
type start struct {
	name    string // as returned by source.Kind.NameOf
	kind    source.Type
	unnamed bool // it has no name to keep a checkpoint under
	reread  reread
	cp      sink.Checkpoint
	was     settings // the settings in cp
	from    position
}

// reread tells who can read uncommitted lines of a source again.
type reread int

const (
	byNobody   reread = iota // nobody: they are lost
	byLaterRun               // a later run: stdin that a job resumes
	byThisRun                // this run and later ones
)

// A lane is read in order and resumed independently; see [source.Source].
type lane struct {
	start
	log      *slog.Logger
	progress *status.Lane
	src      source.Lane   // as the source reports it
	first    position      // of the first line
	period   time.Duration // longest that a line waits to be written; 0: no limit
	// urgent: a set is due after period even while more lines wait to be read. Otherwise it is then due only after
	// [catchUpPeriod].
	urgent bool

	reading laneReading // owned by the reader
	flushed laneFlushed // owned by the flusher

	left atomic.Int64 // lines that were read but not folded because the attempt ended
}

// maxLanes is the maximum number of lanes in a set. 4,000 would save a fifth of the CPU time for 10,000 files of 50
// messages (the section files of make bench). But two sets and a claim hold a lock for each lane, and a Postgres server
// has room for 6,400 locks of all sessions by default.
const maxLanes = 1000

// An opener claims the lanes that the sources open, and puts their lines into the pool.
type opener struct {
	*run
	claimer *claimer
	scans   *scanPool
	lanes   []*lane // opened so far
}

// read puts the events of a source into the pool, until an error or its end. When reading ends, lines read before are
// still put into the pool; when folding ends, nothing is.
func (o *opener) read(reading, folding context.Context, src source.Source) error {
	defer context.AfterFunc(reading, src.Stop)()
	lanes := map[string]*lane{} // open lanes
	ended := map[string]*lane{} // may come back
	for {
		e, err := src.Next(folding)
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		l := lanes[e.Lane]
		switch {
		case e.Kind == source.Opened && l == nil:
			if err := o.waitCommitted(reading, folding, ended[e.Lane]); err != nil {
				return err
			}
			if l, err = o.begin(reading, folding, e); err != nil {
				return err
			}
			lanes[e.Lane] = l
		case e.Kind == source.Closing, e.Kind == source.Lost:
			if delete(lanes, e.Lane); l != nil {
				ended[e.Lane] = l
			}
		case e.Kind == source.Barrier && l == nil:
			l = ended[e.Lane]
		}
		if l == nil { // there was nothing to read
			if e.Kind == source.Barrier {
				e.Reached(source.Point{})
			}
			continue
		}
		if err := o.scans.put(reading, folding, l, e); err != nil {
			return err
		}
	}
}

// waitCommitted waits until all lines of an ended lane are committed and its claim is released. Only then does its
// checkpoint say where it continues. nil is no lane.
func (o *opener) waitCommitted(reading, folding context.Context, l *lane) error {
	if l == nil {
		return nil
	}
	done := make(chan struct{})
	if err := o.scans.put(reading, folding, l, source.Event{Kind: source.Barrier, Lane: l.name, Reached: func(source.Point) { close(done) }}); err != nil {
		return err
	}
	select {
	case <-done:
		return nil
	case <-reading.Done():
		return reading.Err()
	}
}

// begin claims a lane that a source opened, and begins it at its checkpoint. It returns nil if there is nothing to read.
// If it cannot be read, the reader learns why.
func (o *opener) begin(ctx, folding context.Context, e source.Event) (*lane, error) {
	s, err := o.claimer.claim(ctx, e.Lane)
	if err != nil || s == nil {
		return nil, err
	}
	l := &lane{start: *s, log: o.cfg.Log.With("source", s.name), progress: o.p.Open(s.name, kindOf(s.kind, o.cfg.Source.Follow)), period: o.cfg.BatchPeriod}
	l.src, err = e.Begin(ctx, source.Point{Cursor: s.from.mark.Source, Resume: s.from.mark.Feed.Resume})
	finished := err == io.EOF
	if err != nil && !finished {
		l.progress.Remove()
		if ctx.Err() != nil {
			return nil, err
		}
		return nil, o.scans.put(ctx, folding, l, source.Event{Kind: source.Closing, Lane: s.name, Err: err})
	}
	l.first.mark = mark{Source: l.src.At, Feed: s.from.mark.Feed}
	switch {
	case l.isSpooled():
		l.first.offset = l.src.Offset
		if l.src.At == s.from.mark.Source {
			l.first.line = s.from.line
		}
	case l.src.At != "":
		l.first.line, l.first.offset = s.from.line, max(s.from.offset, l.src.Offset)
	}
	l.flushed.pos = l.first
	if l.src.Raw != nil {
		l.progress.Locate(l.first.offset, l.src.Raw)
	}
	if l.src.Lag != nil {
		l.progress.Partition(l.src.Topic, l.src.Number, l.src.Lag, l.src.Connected)
	}
	l.urgent = l.period > 0
	if l.period == 0 && (l.src.Waits || o.cfg.MaxRate > 0) {
		l.period, l.urgent = livePeriod, o.cfg.MaxRate > 0 || l.kind != source.File && l.kind != source.Partition
	}
	o.lanes = append(o.lanes, l)
	if finished {
		o.claimer.skip(s)
	} else {
		o.logStart(l)
	}
	return l, nil
}

// rereadable returns who can read uncommitted lines of an open lane again.
func (l *lane) rereadable() reread {
	if l.src.Type == source.FIFO {
		return byNobody
	}
	return l.reread
}

// isSpooled reports whether lines stay on disk until they are committed.
func (l *lane) isSpooled() bool { return l.src.Type == source.Spooled }

// isFresh reports whether the lane is read from its start, though it could be resumed.
func (l *lane) isFresh() bool { return l.cp.Mark == "" && l.reread != byNobody }

// isTentative reports whether the lane's position is written only if a message was accepted. A run with other settings
// can then start over.
func (l *lane) isTentative() bool {
	return l.isFresh() && !l.isSpooled() && l.src.At == ""
}

// replacesRejects reports whether the lane's first flush replaces the rejects that are kept of it.
func (l *lane) replacesRejects(cp *sink.Checkpoint) bool {
	return l.isFresh() && l.cp.Seq > 0 && cp.Seq == l.cp.Seq+1
}

// stop describes where a lane was left. Everything before the position is committed.
func (l *lane) stop(at position) status.Stop {
	s := status.Stop{Source: l.name, Line: at.line, Offset: at.offset, Resumes: l.isSpooled() || l.rereadable() != byNobody}
	if l.src.Raw != nil {
		// Files are read ahead, and offsets in compressed files count uncompressed bytes.
		if offset, size := l.src.Raw(); size > 0 {
			s.Read = min(1, float64(min(at.offset, offset))/float64(size))
		}
	}
	return s
}

// countUnfolded counts lines that were read but not folded because the attempt ends.
func (l *lane) countUnfolded(lines, bytes int64) {
	l.left.Add(lines)
	l.progress.Read(lines, bytes, false, time.Time{})
}

// countUnfoldedBlocks counts the lines of blocks that were not scanned. It ignores nil.
func (l *lane) countUnfoldedBlocks(blocks ...*source.Block) {
	for _, b := range blocks {
		if b != nil {
			n, _ := b.Lines(math.MaxInt)
			l.countUnfolded(int64(n), max(b.Oversize, int64(len(b.Data))))
		}
	}
}

// lost counts the lines that were read, are not in the database, and cannot be read again by this run. Lines of a spool
// are lost only if they were committed, and removed from the spool, before the database was restored.
func (l *lane) lost() int64 {
	switch {
	case l.rereadable() == byThisRun:
		return 0
	case l.isSpooled():
		return l.flushed.pos.read - l.flushed.safe
	}
	return l.reading.read + l.left.Load() - l.flushed.safe
}

// kindOf returns how a source is read, for the status page.
func kindOf(t source.Type, follow bool) status.Kind {
	switch {
	case t == source.Partition:
		return status.Partition
	case t == source.Dialed:
		return status.Dialed
	case t.Live():
		return status.Listening
	case t == source.Stdin || follow:
		return status.Waiting
	}
	return status.File
}

func (o *opener) logStart(l *lane) {
	switch from := &l.from; {
	case from.mark.Feed.Resume != "", l.src.Resume != "":
		l.log.Info(fmt.Sprintf("%s: resuming after %s %s", l.name, o.cfg.Feed.ResumeField, cmp.Or(l.src.Resume, from.mark.Feed.Resume)))
	case l.kind == source.Partition && l.src.At != "":
		l.log.Info(fmt.Sprintf("%s: reading from offset %d", l.name, l.first.offset))
	case l.first.offset > 0:
		l.log.Info(fmt.Sprintf("%s: resuming after line %d (byte %d)", l.name, l.first.line, l.first.offset))
	}
	if l.src.Addr != nil {
		l.log.Info(fmt.Sprintf("%s: senders connect to %s", l.name, l.src.Addr))
	}
}
