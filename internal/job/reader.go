package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/weirsync/weir/internal/source"
)

// A reader folds the lines of the lanes into sets.
type reader struct {
	*run
	scans *scanPool
	full  chan<- *set
	free  chan *set

	set      *set
	unmarked bool // the database does not know the file of rejects yet
	rebuilds bool // the tables are to be emptied
	emptied  bool // a set was handed over that empties the tables
	open     map[*lane]bool
	read     bool  // there were lines
	failed   error // of reading
	broken   bool  // a fold has panicked: the set at hand may have half of a message
}

// laneReading is what the reader knows of a lane.
type laneReading struct {
	seq int64    // of the last set that had it
	pos position // after the last line that was folded
	laneCursor
	conn   int // that brought the lines at hand; see [source.Block]
	feed   feedState
	begins beginning

	ended bool // all its lines were folded

	inSet int // its place in the set at hand, from 1; 0 is none
	tally
	restart   bool // see setLane
	tentative bool
}

// A laneCursor counts the lines that were read of a lane.
type laneCursor struct {
	line int64 // of the file or connection at hand, as people count: each restarts it
	read int64 // of all that this attempt has read: it only grows
}

func (c *laneCursor) advance() { c.line, c.read = c.line+1, c.read+1 }

// fill folds what the pool has until there is no more.
func (rd *reader) fill(reading, flushing context.Context) error {
	rd.set, rd.open = <-rd.free, map[*lane]bool{}
	defer rd.p.Step(false)
	err := rd.guard(func() error { return rd.foldAll(reading, flushing) })
	if err == nil || flushing.Err() != nil {
		return nil // the flusher has the error
	}
	// What was read before it went wrong is good, and is written: so the error must not end the flusher.
	rd.failed = err
	if rd.broken {
		return nil
	}
	return rd.guard(func() error { return rd.handOver(flushing) })
}

// foldAll folds what comes until the end, and hands it over.
func (rd *reader) foldAll(reading, flushing context.Context) error {
	for {
		rd.p.Step(true)
		e, err := rd.next(flushing)
		if err == nil && e == nil {
			return rd.end(reading, flushing)
		}
		if err == nil {
			err = rd.handle(flushing, e)
			rd.scans.release(e)
			rd.p.SetBuffer(int64(rd.set.Bytes()))
			rd.p.SetMismatches(rd.mismatches())
			rd.p.SetLost(rd.lost())
		}
		if err != nil && err != errDue {
			return err
		}
	}
}

// guard is [source.Guard] for what folds.
func (rd *reader) guard(do func() error) error {
	returned := false
	err := source.Guard(func() error {
		err := do()
		returned = true
		return err
	})
	rd.broken = rd.broken || !returned
	return err
}

// end hands over what was read when no more comes.
func (rd *reader) end(reading, flushing context.Context) error {
	rd.failed = rd.scans.err
	switch {
	case reading.Err() == nil:
		return rd.handOver(flushing)
	case errors.Is(rd.failed, context.Canceled):
		rd.failed = nil
	}
	if rd.rebuilds && !rd.read {
		return nil // a table is not emptied for what was not read
	}
	return rd.handOver(flushing)
}

// errDue says that the set at hand has waited for long enough.
var errDue = errors.New("the batch is due")

// next waits for an event, but not past the time at which the set is due. It returns nil
// after the last.
func (rd *reader) next(flushing context.Context) (*event, error) {
	var due <-chan time.Time
	if rd.set.period > 0 {
		wait := time.Until(rd.set.first.Add(rd.set.period))
		if !rd.set.prompt && len(rd.scans.events) > 0 { // the source is behind
			wait = time.Until(rd.set.first.Add(max(rd.set.period, catchUpPeriod)))
		}
		if wait <= 0 && len(rd.free) > 0 {
			if err := rd.handOver(flushing); err != nil {
				return nil, err
			}
		} else { // while the sink is busy the set keeps filling
			timer := time.NewTimer(max(wait, rd.set.period/16))
			defer timer.Stop()
			due = timer.C
		}
	}
	select {
	case e, ok := <-rd.scans.events:
		return received(e, ok), nil
	default:
	}
	idle := time.NewTimer(livePeriod) // until what was read of other sources is written
	defer idle.Stop()
	select {
	case e, ok := <-rd.scans.events:
		return received(e, ok), nil
	case <-due:
		return nil, errDue
	case <-idle.C:
		if rd.set.period > 0 {
			return nil, errDue
		}
		return nil, cmp.Or(rd.handOver(flushing), errDue)
	}
}

// received returns an event that is scanned, nil if none is to come.
func received(e *event, ok bool) *event {
	if ok {
		<-e.ready
	}
	return e
}

// handle deals with an event.
func (rd *reader) handle(flushing context.Context, e *event) error {
	if most := cmp.Or(rd.lanesAtOnce, maxLanes); e.lane.reading.inSet == 0 && (len(rd.set.lanes) >= most || len(rd.set.ended) >= most) {
		if err := rd.handOver(flushing); err != nil {
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
	was := e.lane.reading.read
	err := rd.guard(func() error { return rd.foldBlock(flushing, e) })
	switch {
	case err == errTorn:
		return nil // it is the lane's last
	case rd.broken || e.failed != nil:
		return e.panicked(e.lane.reading.read-was, err)
	case err == nil && rd.isFull():
		return rd.handOver(flushing)
	}
	return err
}

// panicked is the error of a panic that ended the scan or the fold of a block, of which so many lines were folded.
func (e *event) panicked(folded int64, err error) error {
	l, r := e.lane, &e.lane.reading
	n, _ := e.Lines(math.MaxInt)
	l.progress.Read(folded, 0, false, time.Time{})
	l.leave(int64(n)-folded, e.size(len(e.Data)))
	before, at := r.line-folded, max(0, min(folded, int64(n)-1)) // all are folded where handing them over has failed
	what, first, last := "line", before+at+1, before+int64(n)
	if e.Records != nil {
		what, first, last = "offset", e.Records[at].Offset, e.Records[n-1].Offset
	}
	return fmt.Errorf("%s %ss %d to %d: weir itself failed on one of them, and none was written; please report it with the %s: %w", l.name, what, first, last, what, err)
}

// beginLane begins to read a lane that was opened.
func (rd *reader) beginLane(flushing context.Context, l *lane) error {
	rd.open[l] = true
	fresh := l.cp.Mark == "" && l.resumes && !l.unnamed
	l.reading = laneReading{seq: l.cp.Seq, tally: tally{rejected: l.cp.Rejected},
		restart: fresh && l.cp.Seq > 0, tentative: fresh && !l.begun.Kept && l.begun.At == ""}
	r := &l.reading
	if rd.emptied && !l.back { // its checkpoint was read before
		r.seq = 0
	}
	r.pos = l.begin
	r.line, r.feed = r.pos.line, feedState{feedMark: r.pos.mark.Feed, opening: !l.begun.Kept}
	r.begins.awaits = r.pos.offset == 0 && !l.traits.Live
	if err := errors.Join(rd.knowNames(&l.start), rd.checkAdded(flushing, l)); err != nil {
		return err
	}
	moved := l.traits.Records && l.begun.At != l.from.mark.Source
	if l.begun.At != "" && !l.begun.Kept && (l.from == (position{}) || moved) {
		rd.addLane(l) // so that the next run begins there, too, also if nothing is read
	}
	if l.accepted || rd.rebuilds && !rd.emptied || rd.unmarked {
		rd.addLane(l)
	}
	if rd.unmarked {
		rd.unmarked = false
		return rd.handOver(flushing)
	}
	return nil
}

// endLane removes a lane that was read to its end, or to an error. Its claim is released when its lines are
// committed.
func (rd *reader) endLane(l *lane, err error) error {
	delete(rd.open, l)
	l.progress.Close()
	rd.set.ended = append(rd.set.ended, l)
	if err != nil {
		return err
	}
	l.reading.ended = true
	if f := l.reading.begins.end(); f != nil && !rd.Source.Follow { // else another file comes
		return rd.foreign(l, f)
	}
	return nil
}

// loseLane removes a lane that is somebody else's.
func (rd *reader) loseLane(flushing context.Context, l *lane) error {
	delete(rd.open, l)
	l.reading.ended = true
	l.progress.Remove()
	return rd.claims.Drop(flushing, l.name)
}

// laneIndex returns the index of a lane in the set at hand, or the one that it would get.
func (rd *reader) laneIndex(l *lane) int {
	if l.reading.inSet == 0 {
		return len(rd.set.lanes)
	}
	return l.reading.inSet - 1
}

// addLane adds a lane to the set at hand, which writes its checkpoint.
func (rd *reader) addLane(l *lane) {
	if l.reading.inSet == 0 {
		rd.set.lanes = append(rd.set.lanes, setLane{lane: l})
		l.reading.inSet = len(rd.set.lanes)
	}
}

// rejectShare is the part of the buffer that a set fills with rejected lines. A driver
// holds them again while it writes them, and each is garbage when it is written.
const rejectShare = 8

// isFull reports whether the set at hand has no room left.
func (rd *reader) isFull() bool {
	s := rd.set
	return rd.BatchRows > 0 && s.Rows() >= rd.BatchRows || int64(s.Bytes()) >= rd.Buffer/2 || int64(s.RejectBytes()+s.resumeBytes) >= rd.Buffer/rejectShare
}

// eagerRows is how many rows are written at once, at least, if there is room for more; of manyPerRepeat messages
// not one has a key that another had before.
const eagerRows, manyPerRepeat = 100_000, 64

// isEager reports whether the set at hand may be written although there is room for more: nearly all of its messages
// became rows of their own, so a larger set would write as many, and the database has nothing to do. A load of
// rows that are all new would else fold and write in turns (1.2 of the time).
func (rd *reader) isEager() bool {
	if len(rd.free) == 0 || rd.lookedAt {
		return false
	}
	rows := rd.set.Rows()
	return rows >= eagerRows && (rd.set.Messages()-int64(rows))*manyPerRepeat < int64(rows)
}

// startPeriod notes when the first line of the set came in, and how long it waits.
func (rd *reader) startPeriod(l *lane) {
	s := rd.set
	if s.first.IsZero() {
		s.first = time.Now()
	}
	if l.period > 0 && (s.period == 0 || l.period < s.period) {
		s.period = l.period
	}
	s.prompt = s.prompt || l.prompt
}

// handOver gives the set to the flusher, and takes an empty one. It does nothing
// where there is nothing to write.
func (rd *reader) handOver(flushing context.Context) error {
	s := rd.set
	s.rebuild = rd.rebuilds && !rd.emptied && len(s.lanes) > 0
	if s.isEmpty() && len(s.resumes) == 0 && len(s.ended) == 0 && !s.rebuild {
		s.first, s.period, s.prompt = time.Time{}, 0, false
		return nil
	}
	for i := range s.lanes {
		l := &s.lanes[i]
		r := &l.lane.reading
		cp, err := r.pos.checkpoint()
		if err != nil {
			return err
		}
		r.seq++
		r.inSet = 0
		cp.Seq, cp.Settings = r.seq, rd.settingText
		*l = setLane{lane: l.lane, cp: cp, pos: r.pos, restart: r.restart, tentative: r.tentative, tally: r.tally}
		r.restart = false
	}
	if s.rebuild { // which forgets the other lanes' checkpoints
		rd.emptied = true
		for l := range rd.open {
			if l.reading.seq == l.cp.Seq {
				l.reading.seq = 0
			}
		}
	}
	now := time.Now()
	for _, b := range s.Batches {
		b.Time = now
	}
	rd.folders.Seal(s.Set)
	rd.countUnmet()
	select {
	case rd.full <- s:
	case <-flushing.Done():
		return flushing.Err()
	}
	select {
	case rd.set = <-rd.free:
		rd.set.Grow(len(rd.folders))
		return nil
	case <-flushing.Done():
		return flushing.Err()
	}
}

// reach answers a source that waits until a lane is committed.
func (rd *reader) reach(flushing context.Context, e *event) error {
	if err := rd.commitAll(flushing); err != nil {
		return err
	}
	at := &e.lane.reading.pos.mark
	e.of.Reached(source.Point{Cursor: at.Source, Resume: at.Feed.Resume})
	return nil
}

// commitAll writes the set at hand, and waits until all that was folded is committed, and the claims of lanes that
// have ended are released.
func (rd *reader) commitAll(flushing context.Context) error {
	if err := rd.handOver(flushing); err != nil {
		return err
	}
	select {
	case s := <-rd.free: // no set is on its way
		rd.free <- s
		return nil
	case <-flushing.Done():
		return flushing.Err()
	}
}
