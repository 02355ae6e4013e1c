package job

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/weirsync/weir/internal/envelope"
	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/mapping"
)

// errTorn is returned for a torn last line that is left for the next run.
var errTorn = errors.New("the last line has no end yet")

// foldBlock folds the lines of a block.
func (rd *reader) foldBlock(flushing context.Context, e *event) (err error) {
	l, r := e.lane, &e.lane.reading
	if e.Restart {
		r.line, r.begins = 0, beginning{} // what was read before is good, whatever comes now
	}
	if e.failed != nil {
		return e.failed
	}
	if f := r.begins.add(e); f != nil {
		return rd.foreign(l, f)
	}
	if e.Conn != r.conn {
		r.conn, r.feed.repeats, r.feed.opening = e.Conn, 0, true
	}
	before, folded, at := r.read, r.folded, 0
	if e.Oversize > 0 {
		at, err = rd.oversize(e)
	} else {
		at, err = rd.foldLines(flushing, e)
	}
	if at > 0 || len(e.Data) == 0 {
		rd.moveTo(e, at)
	}
	named := e.Time
	if n := len(e.lines); n > 0 && rd.Feed.TimeField != "" {
		named = feedTime(&e.lines[n-1], rd.feedNames.time)
	}
	l.progress.Read(r.read-before, e.size(at), r.folded > folded, named)
	if err != nil {
		l.leave(e.count()-(r.read-before), e.size(len(e.Data))-e.size(at))
	}
	rd.read = rd.read || r.read > before
	return err
}

// foreign ends the run for a lane that has another format. Its lines that were rejected before that was clear are not
// written, unless they were handed over or other lanes have brought something, too.
func (rd *reader) foreign(l *lane, f *format) error {
	if s := rd.set; len(s.lanes) == 1 && s.lanes[0].lane == l {
		s.reset()
	}
	return fmt.Errorf("%s: %w", l.name, f)
}

// oversize rejects a line of which there is only the beginning. It returns 0 where the line
// does not count.
func (rd *reader) oversize(e *event) (at int, err error) {
	r := &e.lane.reading
	was := r.feed
	err = rd.reject(e.lane, fold.Place{Line: r.line + 1, Offset: e.Offset}, rd.noTable(), bytes.TrimSuffix(e.Data, newline),
		feed.Errorf(feed.TooLong, "a line of %d bytes: at most %d (--max-line)", e.Oversize-1, rd.Source.MaxLine))
	if errors.Is(err, ErrRejected) {
		r.feed = was
		return 0, err
	}
	r.advance()
	return len(e.Data), err
}

// count is how many lines a block has.
func (e *event) count() int64 {
	if e.Oversize > 0 {
		return 1
	}
	return int64(len(e.lines))
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
	read := position{line: r.line, offset: e.OffsetAfter(at), mark: mark{Source: e.CursorAfter(at), Feed: r.feed.feedMark}, read: r.read}
	if read != r.pos { // else it was handed over
		r.pos = read
		rd.addLane(l)
	}
}

// foldLines folds the lines of a block and returns the index after the last one that
// counts.
func (rd *reader) foldLines(flushing context.Context, e *event) (at int, err error) {
	r := &e.lane.reading
	for i := range e.lines {
		rd.prefetchLines(e.lines, i)
		line := &e.lines[i]
		next := min(at+len(line.Text)+1, len(e.Data))
		if !line.Blank {
			was := r.feed
			counts, err := rd.foldLineAt(flushing, e, i, at)
			if err != nil {
				if counts {
					at = next
					r.advance()
				} else {
					r.feed = was // the next run meets the line again
				}
				return at, err
			}
		}
		at = next
		r.advance()
		if rd.isFull() || rd.isEager() {
			rd.moveTo(e, at)
			if err := rd.handOver(flushing); err != nil {
				return at, err
			}
		}
	}
	return at, nil
}

// foldLineAt folds a line of a block, which begins at an index, when there is what it needs: an empty
// set, or one more table.
func (rd *reader) foldLineAt(flushing context.Context, e *event, i, at int) (counts bool, err error) {
	r := &e.lane.reading
	for was := r.feed; ; {
		counts, err = rd.foldLineOf(e, i, at)
		n, adds := err.(*mapping.NewTable)
		if !adds && err != fold.ErrSplit {
			return counts, err
		}
		if r.feed = was; adds {
			if err = rd.addTable(flushing, e, i, at, n); err == errNoTable {
				rd.countMessage(e.lane)
				return true, nil
			}
		} else {
			err = rd.split(flushing, e, at)
		}
		if err != nil {
			return false, err
		}
	}
}

// split hands over what was read before an index of a block.
func (rd *reader) split(flushing context.Context, e *event, at int) error {
	if at > 0 {
		rd.moveTo(e, at)
	}
	return rd.handOver(flushing)
}

// foldLineOf is foldLine of a line of a block, which begins at an index.
func (rd *reader) foldLineOf(e *event, i, at int) (counts bool, err error) {
	l, line := e.lane, &e.lines[i]
	place := fold.Place{Lane: rd.laneIndex(l), Line: l.reading.line + 1, Offset: e.Offset + int64(at)}
	if e.Records != nil {
		place.Offset = e.Records[i].Offset
	}
	return rd.foldLine(l, line, place, e.Tail && at+len(line.Text)+1 >= len(e.Data))
}

// foldLine folds or rejects a line. Where it returns an error, which ends the
// source, counts tells whether the line was dealt with.
func (rd *reader) foldLine(l *lane, line *feed.Line, at fold.Place, tail bool) (counts bool, err error) {
	rd.startPeriod(l)
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
		if rd.mapper == nil && rd.folded < likely {
			rd.folded++
			rd.tellEnvelope(l, line.Text, at.Line)
		}
		rd.countMessage(l)
		return true, nil
	case *feed.Error:
		// The end of a followed file comes when another one has taken its place.
		if tail && err.Reason == feed.Truncated && l.traits.Named && !rd.Source.Follow {
			l.log.Warn(fmt.Sprintf("%s: the last line (line %d, byte %d) has no end yet; it is left for the next run", l.name, at.Line, at.Offset))
			return false, errTorn
		}
		err2 := rd.reject(l, at, table, line.Text, err)
		return !errors.Is(err2, ErrRejected), err2
	default:
		if _, needs := err.(*mapping.NewTable); needs || err == fold.ErrSplit {
			return false, err
		}
		return false, fmt.Errorf("%s line %d: %w", l.name, at.Line, err)
	}
}

// likely is how many messages of a run are looked at: a change stream may begin with some that are not rows.
const likely = 10

// tellEnvelope warns, once, of a message that looks to be in an envelope, whose fields become columns.
func (rd *reader) tellEnvelope(l *lane, message []byte, line int64) {
	if of := envelope.Of(message); of != "" {
		l.log.Warn(fmt.Sprintf("%s line %d looks like a message of a change stream, whose row is in an envelope: --envelope %s reads that; without it the fields of the envelope are the columns", l.name, line, of))
		rd.folded = likely
	}
}

// countMessage notes that a line of a lane is a message.
func (rd *reader) countMessage(l *lane) {
	l.reading.folded++
	rd.addLane(l)
}

// addLine merges a line of a lane into the set. With an error it returns the table that
// rejects the line, or -1.
func (rd *reader) addLine(from *lane, l *feed.Line, at fold.Place) (table int, err error) {
	if l.Err != nil && !(l.Null && rd.Stream) {
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
	if table, err = rd.folders.Add(rd.set.Set, changes, at); err != nil {
		return table, err
	}
	if m, plans := rd.mapper.(*planned); plans {
		if m.resume != nil && rd.Resume != nil {
			rd.set.resume(m.resume)
		}
		if len(changes) > 0 {
			m.countLost()
		}
	}
	return table, nil
}

// noTable is the table that rejects a line that is no message: -1 where there are several.
func (rd *reader) noTable() int {
	if len(rd.Tables) == 1 && rd.Star == nil {
		return 0
	}
	return -1
}

// prefetchLines has the memory fetched that folding lines will touch, of which one is at hand, where their
// fields are the columns.
func (rd *reader) prefetchLines(lines []feed.Line, at int) {
	if rd.mapper == nil {
		rd.folders[0].CPUPrefetch(rd.set.Batches[0], lines, at)
	}
}

// reject deals with a line that is no message.
func (rd *reader) reject(l *lane, at fold.Place, table int, line []byte, why *feed.Error) error {
	if rd.Feed.resumes(l.traits) && l.reading.feed.again(line) {
		return nil // it was counted when it came first
	}
	return rd.keepReject(l, fold.NewReject(at, table, why, line))
}

// keepReject counts a rejected line, and puts it where the run keeps them.
func (rd *reader) keepReject(l *lane, rejected fold.Reject) error {
	rd.startPeriod(l)
	l.progress.Reject(&rejected)
	l.reading.rejected++
	switch rd.Rejects.mode {
	case discard:
	case fail:
		return rejectedError(&l.start, &rejected)
	default:
		rejected.Lane = rd.laneIndex(l)
		rd.addLane(l)
		rd.set.Reject(rejected)
	}
	return rd.tooMany(rejected.Detail)
}

// rejectedError is the end of a run that takes no bad lines.
func rejectedError(of *start, r *fold.Reject) error {
	place := fmt.Sprintf("line %d (byte %d)", r.Line, r.Offset)
	if of.traits.Records {
		place = fmt.Sprintf("offset %d", r.Offset)
	}
	return fmt.Errorf("%w: %s %s: %s", ErrRejected, of.name, place, r.Detail)
}

// tooMany ends a run whose feed is mostly bad.
func (r *run) tooMany(last string) error {
	if n := r.p.Rejected(); n > r.MaxRejects {
		return fmt.Errorf("rejected lines: %d, more than --max-rejects %d; the last: %s", n, r.MaxRejects, last)
	}
	return nil
}
