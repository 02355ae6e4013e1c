package pipeline

import (
	"context"
	"errors"
	"time"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/source"
)

// A reader folds the lines of the lanes into sets.
type reader struct {
	*run
	tables  *tables
	builder *setBuilder
	scans   *scanPool
	adder   *tableAdder
	unread  *unreadFiles
	counted map[string]int64 // see history
	scan    *feed.Scanner    // of the elements of arrays

	begun  bool  // at least one line was read
	failed error // the error that ended reading
	torn   bool  // the current set has only a part of an array
}

// laneReading is the reader's state of a lane.
type laneReading struct {
	read int64    // lines that this attempt has read; never decreases
	line int64    // lines of the current file or connection that it or earlier runs have read
	seq  int64    // of the last set that had the lane; 0: none had it
	pos  position // after the last folded line
	conn int      // connection of the current lines; see [source.Block]
	feed feedState

	ended   bool  // all its lines were folded
	counted int64 // up to which offset rejected lines are counted

	inSet int // position in the current set, from 1; 0: not in it
	tally
}

// fill folds the lines in the pool until there are no more, and hands over the last set.
func (rd *reader) fill(reading, flushing context.Context) error {
	rd.builder.set = <-rd.builder.free
	defer rd.p.Step(false)
	rd.failed = rd.foldAll(flushing)
	stopped := reading.Err() != nil || flushing.Err() != nil // by a signal, or because the flusher has failed
	if stopped && errors.Is(rd.failed, context.Canceled) {
		rd.failed = nil
	}
	// Lines read before an error are good and are written, so this error must not end the flusher.
	switch {
	case flushing.Err() != nil, rd.torn:
		return nil
	case stopped && rd.builder.rebuild != noRebuild && !rd.begun: // tables are not emptied if nothing was read
		return nil
	}
	return rd.builder.handOver(flushing)
}

// foldAll folds lines until the end. It returns what has ended reading.
func (rd *reader) foldAll(flushing context.Context) error {
	for {
		rd.p.Step(true)
		e, more, err := rd.next(flushing)
		switch {
		case err != nil:
			return err
		case !more:
			return rd.scans.err
		case e == nil:
			continue
		}
		err = rd.handle(flushing, e)
		rd.scans.release(e)
		rd.p.SetBuffer(int64(rd.builder.set.Bytes()))
		rd.tables.noteMismatches()
		if err != nil {
			return err
		}
	}
}

// next returns the next event. A set that is due is handed over first, and if nothing arrives for a while, a set without
// a period too; then e is nil, and the caller calls again. more is false after the last event.
func (rd *reader) next(flushing context.Context) (e *event, more bool, err error) {
	due, wait := &rd.builder.set.due, livePeriod // until lines of other sources are written
	if due.period > 0 {
		left := due.in(len(rd.scans.events) > 0)
		if left <= 0 && len(rd.builder.free) > 0 {
			return nil, true, rd.builder.handOver(flushing)
		}
		wait = min(wait, max(left, due.period/16)) // while the database is busy, the set keeps filling
	}
	select {
	case e, more = <-rd.scans.events:
		return scanned(e), more, nil
	default:
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case e, more = <-rd.scans.events:
		return scanned(e), more, nil
	case <-timer.C:
	}
	if due.period == 0 {
		err = rd.builder.handOver(flushing)
	}
	return nil, true, err
}

// scanned waits until an event is scanned, and returns it. It returns nil for nil.
func scanned(e *event) *event {
	if e != nil {
		<-e.ready
	}
	return e
}

func (rd *reader) handle(flushing context.Context, e *event) error {
	if !rd.builder.hasRoomFor(e.lane) {
		if err := rd.builder.handOver(flushing); err != nil {
			return err
		}
	}
	switch e.of.Kind {
	case source.Opened:
		return rd.beginLane(flushing, e.lane)
	case source.Barrier:
		return rd.reach(flushing, e)
	case source.Closing:
		return rd.endLane(e.lane, e.of.Err)
	case source.Lost:
		return rd.loseLane(flushing, e.lane)
	}
	if err := rd.foldBlock(flushing, e); err != nil || !rd.builder.isFull() {
		return err
	}
	return rd.builder.handOver(flushing)
}

func (rd *reader) beginLane(flushing context.Context, l *lane) error {
	rd.builder.open[l] = true
	l.reading = laneReading{pos: l.first, line: l.first.line, tally: tally{rejected: l.cp.Rejected}}
	r := &l.reading
	r.feed = feedState{feedMark: r.pos.mark.Feed, opening: !l.isSpooled()}
	rd.builder.settings.learn(&l.start)
	if err := rd.adder.checkStart(flushing, &l.start); err != nil {
		return err
	}
	moved := l.kind == source.Partition && l.src.At != l.from.mark.Source
	if l.src.At != "" && !l.isSpooled() && (l.from == (position{}) || moved) {
		rd.builder.addLane(l) // the next run begins there too, even if nothing is read
	}
	if rd.adder.check.accepts(&l.start) || rd.builder.rebuild == rebuildDue {
		rd.builder.addLane(l)
	}
	return nil
}

// endLane removes a lane that ended, perhaps with an error. Its claim is released once its lines are committed.
func (rd *reader) endLane(l *lane, err error) error {
	delete(rd.builder.open, l)
	l.progress.Close()
	rd.builder.set.ended = append(rd.builder.set.ended, l)
	if err != nil {
		return rd.unread.noteUnread(&l.start, err)
	}
	l.reading.ended = true
	return nil
}

// loseLane removes a lane that the consumer group has assigned to another member.
func (rd *reader) loseLane(flushing context.Context, l *lane) error {
	delete(rd.builder.open, l)
	l.reading.ended = true
	l.progress.Remove()
	return rd.cfg.Retry.Do(flushing, func() error { return rd.claims.Drop(flushing, l.name) })
}

// reach commits all that was folded, and tells the source that waits for it how far the lane is.
func (rd *reader) reach(flushing context.Context, e *event) error {
	if err := rd.builder.commitAll(flushing); err != nil {
		return err
	}
	at := &e.lane.reading.pos.mark
	e.of.Reached(source.Point{Cursor: at.Source, Resume: at.Feed.Resume})
	return nil
}
