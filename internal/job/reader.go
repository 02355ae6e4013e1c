package job

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/source"
)

// A set is what one flush writes. It goes from the reader to the flusher and back.
type set struct {
	*fold.Set
	first   time.Time     // when the first line came in
	period  time.Duration // how long it waits at most: the shortest of its lanes; 0 is no limit
	lanes   []setLane
	ended   []*lane // their claims are released when the set is committed
	rebuild bool    // the tables are emptied first

	// Of the prefetch.
	readsDominate bool
	stopPrefetch  func() // waits until nobody reads the rows
}

// setLane is a lane of a set, and how far the lane is read when the set is committed.
type setLane struct {
	lane      *lane
	cp        sink.Checkpoint // with all but what the database rejects
	pos       position        // the same
	restart   bool            // the rejects that are kept of the source are replaced
	tentative bool            // the position is kept only when a message was taken
	tally
}

// tally counts what became of the lines of a lane.
type tally struct {
	folded   int64 // in this run
	rejected int64
}

func newSet(tables int) *set { return &set{Set: fold.NewSet(tables)} }

func (s *set) reset() {
	s.Reset()
	clear(s.lanes)
	clear(s.ended)
	*s = set{Set: s.Set, lanes: s.lanes[:0], ended: s.ended[:0]}
}

// A reader folds the lines of the lanes into sets.
type reader struct {
	*run
	scans *scanPool
	full  chan<- *set
	free  chan *set

	set      *set
	unmarked bool // the database does not know the file of rejects yet
	emptied  bool // a set was handed over that empties the tables
	open     map[*lane]bool
	read     bool  // there were lines
	failed   error // of reading
}

// laneReading is what the reader knows of a lane.
type laneReading struct {
	seq  int64    // of the last set that had it
	pos  position // after the last line that was folded
	line int64    // lines read, the one at hand included
	base int64    // the line after which this attempt began, as if nothing had been restarted since
	conn int      // that brought the lines at hand; see [source.Block]
	feed feedState
	hint hint
	held []heldReject // until it is clear what the source is
	past position     // after the last line that was read, while there are any

	inSet int // its place in the set at hand, from 1; 0 is none
	tally
	restart   bool // see setLane
	tentative bool
}

// A heldReject is a line that is rejected unless its file as a whole is wrong.
type heldReject struct {
	at    fold.Place
	table int // that rejects it, -1 for none
	why   *feed.Error
	text  []byte
}

// fill folds what the pool has until there is no more.
func (rd *reader) fill(reading, flushing context.Context) error {
	rd.set, rd.open = <-rd.free, map[*lane]bool{}
	for {
		e, err := rd.next(reading, flushing)
		if err == nil && e == nil { // the end
			rd.failed = rd.scans.err
			return rd.handOver(flushing)
		}
		if err == nil {
			err = rd.handle(flushing, e)
			rd.scans.release(e)
			rd.p.SetBuffer(int64(rd.set.Bytes()))
		}
		switch {
		case err == nil || err == errDue:
		case flushing.Err() != nil:
			return nil // the flusher has the error
		case reading.Err() != nil && rd.Rebuild && !rd.read:
			return nil // a table is not emptied for what was not read
		case reading.Err() != nil:
			return rd.handOverAll(flushing)
		default:
			// What was read before it went wrong is good, and is written: so the
			// error must not end the flusher.
			rd.failed = err
			return rd.handOver(flushing)
		}
	}
}

// errDue says that the set at hand has waited for long enough.
var errDue = errors.New("the batch is due")

// next waits for an event, but not past the time at which the set is due. It returns nil
// after the last.
func (rd *reader) next(reading, flushing context.Context) (*event, error) {
	var due <-chan time.Time
	if rd.set.period > 0 {
		wait := time.Until(rd.set.first.Add(rd.set.period))
		if wait <= 0 && len(rd.free) > 0 {
			if err := rd.handOverAll(flushing); err != nil {
				return nil, err
			}
		} else { // while the sink is busy the set keeps filling
			timer := time.NewTimer(max(wait, rd.set.period/16))
			defer timer.Stop()
			due = timer.C
		}
	}
	if err := reading.Err(); err != nil {
		return nil, err
	}
	select {
	case e, ok := <-rd.scans.events:
		return rd.received(reading, e, ok)
	default:
	}
	idle := time.NewTimer(livePeriod) // until what was read of other sources is written
	defer idle.Stop()
	select {
	case e, ok := <-rd.scans.events:
		return rd.received(reading, e, ok)
	case <-due:
		return nil, errDue
	case <-idle.C:
		if rd.set.period > 0 {
			return nil, errDue
		}
		return nil, cmp.Or(rd.handOverAll(flushing), errDue)
	case <-reading.Done():
		return nil, reading.Err()
	}
}

// received returns an event that is scanned, nil where none is to come.
func (rd *reader) received(reading context.Context, e *event, ok bool) (*event, error) {
	if !ok {
		return nil, reading.Err()
	}
	<-e.ready
	return e, nil
}

// handle deals with an event.
func (rd *reader) handle(flushing context.Context, e *event) error {
	if e.lane.reading.inSet == 0 && len(rd.set.lanes) >= cmp.Or(rd.lanesAtOnce, maxLanes) {
		if err := rd.handOver(flushing); err != nil {
			return err
		}
	}
	switch e.of.Kind {
	case source.Opened:
		if e.of.Begin != nil {
			return rd.reopenLane(flushing, e)
		}
		return rd.beginLane(flushing, e.lane)
	case source.Closing:
		return rd.endLane(flushing, e)
	case source.Lost:
		delete(rd.open, e.lane)
		e.lane.progress.Close()
		e.lane.progress.Drop()
		return rd.claims.Drop(flushing, e.lane.name)
	}
	err := rd.foldBlock(flushing, e)
	if err == errTorn {
		return nil // it is the lane's last
	}
	return err
}

// beginLane begins to read a lane that was opened.
func (rd *reader) beginLane(flushing context.Context, l *lane) error {
	rd.open[l] = true
	fresh := l.cp.Mark == "" && l.resumes && !l.unnamed
	l.reading = laneReading{seq: l.cp.Seq, tally: tally{rejected: l.cp.Rejected},
		restart: fresh && l.cp.Seq > 0, tentative: fresh && !l.begun.Kept}
	r := &l.reading
	if rd.emptied && !l.back { // its checkpoint was read before
		r.seq = 0
	}
	r.pos = l.begin
	r.line, r.base, r.feed = r.pos.line, r.pos.line, feedState{feedMark: r.pos.mark.Feed, opening: !l.begun.Kept}
	r.hint.on = r.pos.offset == 0 && !source.TraitsOf(l.name).Live
	if l.accepted || rd.Rebuild && !rd.emptied || rd.unmarked {
		rd.addLane(l)
	}
	if rd.unmarked {
		rd.unmarked = false
		return rd.handOver(flushing)
	}
	return nil
}

// endLane removes a lane that was read to its end, or to an error.
func (rd *reader) endLane(flushing context.Context, e *event) error {
	l := e.lane
	if rd.open[l] { // else somebody waits for one that has ended before
		delete(rd.open, l)
		l.progress.Close()
		if e.of.Done == nil {
			rd.set.ended = append(rd.set.ended, l)
		}
		if e.of.Err != nil {
			return e.of.Err
		}
		if hint := l.reading.hint.ended(); hint != nil {
			return fmt.Errorf("%s: %w", l.name, hint)
		}
		if err := rd.rejectHeld(l); err != nil || e.of.Done == nil {
			return err
		}
	}
	if err := rd.commitAll(flushing); err != nil {
		return err
	}
	if err := rd.claims.Drop(flushing, l.name); err != nil {
		return err
	}
	e.of.Done()
	return nil
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

// errTorn is returned for a torn last line that is left for the next run.
var errTorn = errors.New("the last line has no end yet")

// foldBlock folds the lines of a block.
func (rd *reader) foldBlock(flushing context.Context, e *event) (err error) {
	l, r := e.lane, &e.lane.reading
	if e.Restart {
		if err := rd.rejectHeld(l); err != nil {
			return err
		}
		r.line, r.base, r.hint = 0, r.base-r.line, hint{} // what was read before is good, whatever comes now
	}
	if e.Conn != r.conn {
		r.conn, r.feed.repeats = e.Conn, 0
		r.feed.opening = !l.begun.Kept // what is read back from the disk has no connection
	}
	before, folded, at := r.line, r.folded, 0
	if e.Oversize > 0 {
		at, err = rd.oversize(e)
	} else {
		at, err = rd.foldLines(flushing, e)
	}
	var named time.Time
	if n := len(e.lines); n > 0 && rd.Feed.TimeField != "" {
		named = feedTime(&e.lines[n-1], rd.feedNames.time)
	}
	l.progress.Read(r.line-before, e.size(at), r.folded > folded, named)
	rd.read = rd.read || r.line > before
	if at > 0 {
		rd.moveTo(e, at)
	}
	return err
}

// oversize rejects a line of which there is only the beginning. It returns 0 where the line
// does not count.
func (rd *reader) oversize(e *event) (at int, err error) {
	r := &e.lane.reading
	if err := rd.rejectHeld(e.lane); err != nil {
		return 0, err
	}
	was := r.feed
	err = rd.reject(e.lane, fold.Place{Line: r.line + 1, Offset: e.Offset}, rd.noTable(), bytes.TrimSuffix(e.Data, newline),
		feed.Errorf(feed.TooLong, "a line of %d bytes: at most %d (--max-line)", e.Oversize-1, rd.Source.MaxLine))
	if errors.Is(err, ErrRejected) {
		r.feed = was
		return 0, err
	}
	r.line++
	return len(e.Data), err
}

// size is how many bytes of the source a block has up to an index.
func (e *event) size(at int) int64 {
	if at > 0 && e.Oversize > 0 {
		return e.Oversize
	}
	return int64(at)
}

// moveTo notes that the lines of the block up to an index are folded.
func (rd *reader) moveTo(e *event, at int) {
	l, r := e.lane, &e.lane.reading
	read := position{line: r.line, offset: e.Offset + e.size(at), mark: mark{Source: e.CursorAfter(at), Feed: r.feed.feedMark}, read: r.line - r.base}
	if len(r.held) > 0 {
		r.past = read // what is held is read again if the run ends now
		return
	}
	r.pos = read
	rd.addLane(l)
}

// foldLines folds the lines of a block and returns the index after the last one that
// counts.
func (rd *reader) foldLines(flushing context.Context, e *event) (at int, err error) {
	l, r := e.lane, &e.lane.reading
	for i := range e.lines {
		if i%fold.MaxPrefetch == 0 {
			rd.prefetchLines(e.lines[i:min(i+fold.MaxPrefetch, len(e.lines))])
		}
		line := &e.lines[i]
		next := min(at+len(line.Text)+1, len(e.Data))
		if !line.Blank {
			place, was := fold.Place{Lane: rd.laneIndex(l), Line: r.line + 1, Offset: e.Offset + int64(at)}, r.feed
			if counts, err := rd.foldLine(l, line, place, e.Tail && next == len(e.Data)); err != nil {
				if counts {
					at, r.line = next, r.line+1
				} else {
					r.feed = was // the next run meets the line again
				}
				return at, err
			}
		}
		at, r.line = next, r.line+1
		if rd.isFull() {
			rd.moveTo(e, at)
			if err := rd.handOver(flushing); err != nil {
				return at, err
			}
		}
	}
	return at, nil
}

// rejectShare is the part of the buffer that a set fills with rejected lines. A driver
// holds them again while it writes them, and each is garbage when it is written.
const rejectShare = 8

// isFull reports whether the set at hand has no room left.
func (rd *reader) isFull() bool {
	s := rd.set
	return s.Rows() >= rd.BatchRows || int64(s.Bytes()) >= rd.Buffer/2 || int64(s.RejectBytes()) >= rd.Buffer/rejectShare
}

// foldLine folds or rejects a line. Where it returns an error, which ends the
// source, counts tells whether the line was dealt with.
func (rd *reader) foldLine(l *lane, line *feed.Line, at fold.Place, tail bool) (counts bool, err error) {
	r := &l.reading
	rd.startPeriod(l)
	r.hint.see(line.Text)
	if rd.Feed.hasControl() && line.Err == nil {
		if pass, err := rd.controlMessage(l, line); err != nil {
			return true, fmt.Errorf("%s: %w", l.name, err)
		} else if pass {
			return true, nil
		}
	}
	table, err := rd.addLine(l, line, at)
	switch err := err.(type) {
	case nil:
		r.folded++
		rd.addLane(l)
		if r.hint.on {
			r.hint.on = false
			return true, rd.rejectHeld(l)
		}
		return true, nil
	case *feed.Error:
		// The end of a followed file comes when another one has taken its place.
		if tail && err.Reason == feed.Truncated && source.TraitsOf(l.name).Named && !rd.Source.Follow {
			l.log.Warn(fmt.Sprintf("%s: the last line (line %d, byte %d) has no end yet; it is left for the next run", l.name, at.Line, at.Offset))
			return false, errTorn
		}
		if hint := r.hint.bad(err); hint != nil {
			return false, fmt.Errorf("%s: %w", l.name, hint)
		}
		if r.hint.on && rd.Rejects.mode != fail {
			r.held = append(r.held, heldReject{at, table, err, bytes.Clone(line.Text)})
			return true, nil
		}
		if err := rd.rejectHeld(l); err != nil {
			return true, err
		}
		err2 := rd.reject(l, at, table, line.Text, err)
		return !errors.Is(err2, ErrRejected), err2
	default:
		return false, fmt.Errorf("%s line %d: %w", l.name, at.Line, err)
	}
}

// addLine merges a line of a lane into the set. With an error it returns the table that
// rejects the line, or -1.
func (rd *reader) addLine(from *lane, l *feed.Line, at fold.Place) (table int, err error) {
	if l.Err != nil {
		return rd.noTable(), l.Err
	}
	if rd.mapper == nil {
		c := rd.identity.Map(l)
		return 0, rd.folders[0].Add(rd.set.Batches[0], &c, at)
	}
	changes, table, err := rd.mapper.Map(l, from.name, at)
	if err != nil {
		return table, err
	}
	return rd.folders.Add(rd.set.Set, changes, at)
}

// noTable is the table that rejects a line that is no message: -1 where there are several.
func (rd *reader) noTable() int {
	if len(rd.Tables) == 1 {
		return 0
	}
	return -1
}

// prefetchLines has the memory fetched that folding lines will touch, where their fields are the
// columns.
func (rd *reader) prefetchLines(lines []feed.Line) {
	if rd.mapper == nil {
		rd.folders[0].Prefetch(rd.set.Batches[0], lines)
	}
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
}

// rejectHeld rejects the lines of a lane that were held until it was clear what its source is.
func (rd *reader) rejectHeld(l *lane) error {
	r := &l.reading
	if len(r.held) == 0 {
		return nil
	}
	held := r.held
	r.held = nil
	if r.past != (position{}) {
		r.pos, r.past = r.past, position{}
	}
	rd.addLane(l)
	for _, h := range held {
		if err := rd.reject(l, h.at, h.table, h.text, h.why); err != nil {
			return err
		}
	}
	return nil
}

// handOverAll is handOver of all that was read, with the lines that were held: nobody knows
// when more of their sources comes.
func (rd *reader) handOverAll(flushing context.Context) error {
	for l := range rd.open {
		if err := rd.rejectHeld(l); err != nil {
			return err
		}
	}
	return rd.handOver(flushing)
}

// reject deals with a line that is no message.
func (rd *reader) reject(l *lane, at fold.Place, table int, line []byte, why *feed.Error) error {
	rd.startPeriod(l)
	if rd.Feed.resumes(l.name) && l.reading.feed.again(line) {
		return nil // it was counted when it came first
	}
	l.progress.Reject(table, why.Reason)
	l.reading.rejected++
	switch rd.Rejects.mode {
	case discard:
	case fail:
		return fmt.Errorf("%w: %s line %d (byte %d): %s", ErrRejected, l.name, at.Line, at.Offset, why.Detail)
	default:
		at.Lane = rd.laneIndex(l)
		rd.addLane(l)
		rd.set.Reject(fold.NewReject(at, table, why, line))
	}
	return rd.tooMany(why.Detail)
}

// tooMany ends a run whose feed is mostly bad.
func (r *run) tooMany(last string) error {
	if n := r.p.Rejected(); n > r.MaxRejects {
		return fmt.Errorf("%d lines were rejected, more than --max-rejects %d; the last: %s", n, r.MaxRejects, last)
	}
	return nil
}

// isEmpty reports whether there is nothing to write: no run resumes a lane that is unnamed.
func (s *set) isEmpty() bool {
	for i := range s.lanes {
		if !s.lanes[i].lane.unnamed {
			return false
		}
	}
	return s.Rows() == 0 && len(s.Rejects) == 0
}

// handOver gives the set to the flusher, and takes an empty one. It does nothing
// where there is nothing to write.
func (rd *reader) handOver(flushing context.Context) error {
	s := rd.set
	s.rebuild = rd.Rebuild && !rd.emptied && len(s.lanes) > 0
	if s.isEmpty() && !s.rebuild {
		s.first, s.period = time.Time{}, 0
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
	for _, b := range s.Batches { // before the prefetch, too, reads them
		b.Time = now
	}
	rd.folders.Seal(s.Set)
	select {
	case rd.full <- s:
	case <-flushing.Done():
		return flushing.Err()
	}
	select {
	case rd.set = <-rd.free:
		return nil
	case <-flushing.Done():
		return flushing.Err()
	}
}

// reopenLane begins a lane again where it is committed to.
func (rd *reader) reopenLane(flushing context.Context, e *event) error {
	if err := rd.commitAll(flushing); err != nil {
		return err
	}
	at := &e.lane.reading.pos.mark
	_, err := e.of.Begin(flushing, source.Point{Cursor: at.Source, Resume: at.Feed.Resume})
	return err
}

// commitAll writes the set at hand, and waits until all that was folded is committed.
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
