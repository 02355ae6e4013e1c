package pipeline

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/mapping/envelope"
	"github.com/weirsync/weir/internal/source"
)

func (rd *reader) foldBlock(flushing context.Context, e *event) (err error) {
	l, r := e.lane, &e.lane.reading
	if e.Restart {
		r.line = 0
	}
	if e.Line > 0 {
		r.line = e.Line - 1
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
		rd.moveTo(e, at, r.feed.feedMark)
	}
	named := e.Time
	if n := len(e.lines); n > 0 && rd.cfg.Feed.TimeField != "" {
		for m := range e.lines[n-1].Messages(rd.scan) {
			named = feedTime(m, rd.feedNames.time)
		}
	}
	l.progress.Read(r.read-before, e.size(at), r.folded > folded, named)
	if err != nil { // otherwise only a last line is left, which has no end yet
		l.countUnfolded(e.count()-(r.read-before), e.size(len(e.Data))-e.size(at))
	}
	rd.begun = rd.begun || r.read > before
	return err
}

// oversize rejects a line that exceeds the limit, of which only the beginning was read. It returns 0 if the line is
// left for the next run.
func (rd *reader) oversize(e *event) (at int, err error) {
	r := &e.lane.reading
	was := r.feed
	v := rd.reject(e.lane, fold.Place{Line: r.line + 1, Offset: e.Offset}, rd.tables.noTable(), bytes.TrimSuffix(e.Data, newline),
		feed.Errorf(feed.TooLong, "a line of %d bytes, over --max-line when it was read", e.Oversize-1))
	if v.left {
		r.feed = was
		return 0, v.err
	}
	r.advance()
	return len(e.Data), v.err
}

func (e *event) count() int64 {
	if e.Oversize > 0 {
		return 1
	}
	return int64(len(e.lines))
}

// size returns the size in bytes, in the source, of a block up to an index.
func (e *event) size(at int) int64 {
	if at > 0 && e.Oversize > 0 {
		return e.Oversize
	}
	return int64(at)
}

func (r *laneReading) advance() {
	r.read++
	r.line++
}

// moveTo records that the lines of the block up to an index are folded. resume is where the feed resumes then.
func (rd *reader) moveTo(e *event, at int, resume feedMark) {
	l, r := e.lane, &e.lane.reading
	read := position{line: r.line, offset: e.OffsetAfter(at), mark: mark{Source: e.CursorAfter(at), Feed: resume}, read: r.read}
	if read != r.pos { // otherwise the set was handed over
		r.pos = read
		rd.builder.addLane(l)
	}
}

// A verdict is the result of folding a line.
type verdict struct {
	left bool  // the line is left for the next run
	err  error // ends the attempt's reading: before the line if it is left, else after it
}

// A message is a line of a block, or an element of one.
type message struct {
	*feed.Line
	of      *event
	index   int      // of its line in the block
	begin   int      // of its line in the block's data
	before  feedMark // of the lines before it
	element int      // see [fold.Place]
}

// foldLines folds the lines of a block and returns the index after the last folded one.
func (rd *reader) foldLines(flushing context.Context, e *event) (at int, err error) {
	r := &e.lane.reading
	for i := range e.lines {
		line := &e.lines[i]
		rd.tables.warm(rd.builder.set, e.lines, i)
		was := r.feed
		m, v := message{Line: line, of: e, index: i, begin: at, before: was.feedMark}, verdict{}
		switch {
		case line.Blank:
		case line.Array:
			v = rd.foldArray(flushing, &m)
		default:
			v = rd.foldMessage(flushing, &m)
		}
		if v.left {
			r.feed = was
			return at, v.err
		}
		at = min(at+line.Size+1, len(e.Data))
		r.advance()
		if err = v.err; err == nil && (rd.builder.isFull() || rd.builder.isEager()) {
			err = rd.split(flushing, e, at, r.feed.feedMark)
		}
		if err != nil {
			return at, err
		}
	}
	return at, nil
}

// foldArray folds the elements of an array, all into the same set.
func (rd *reader) foldArray(flushing context.Context, m *message) (v verdict) {
	if err := rd.beginArray(flushing, m); err != nil {
		return verdict{left: true, err: err}
	}
	for element := range m.Messages(rd.scan) {
		m.element++
		one := rd.foldMessage(flushing, &message{element, m.of, m.index, m.begin, m.before, m.element})
		if one.left {
			rd.torn = m.element > 1
			return one
		}
		if v.err == nil {
			v.err = one.err
		}
	}
	return v
}

// beginArray hands over the set if an element of an array may end the run, or add a table, which would divide the array
// between sets. If it may add tables, all batches keep their messages from then on.
func (rd *reader) beginArray(flushing context.Context, m *message) error {
	f := rd.tables
	adds := f.cfg.Plan.Star() != nil && !f.dryRun && !f.constrained
	if rd.builder.set.Rows() > 0 && (adds || rd.cfg.Rejects.To == FailRejects) {
		if err := rd.split(flushing, m.of, m.begin, m.before); err != nil {
			return err
		}
	}
	if adds {
		f.constrained = true
		f.folders.KeepMessages()
	}
	return nil
}

// foldMessage folds or rejects a message, after what it needs.
func (rd *reader) foldMessage(flushing context.Context, m *message) verdict {
	l := m.of.lane
	rd.builder.startPeriod(l)
	if rd.cfg.Feed.hasControl() && m.Err == nil {
		if pass, err := rd.controlMessage(l, m.Line); err != nil {
			return verdict{err: fmt.Errorf("%s: %w", l.name, err)}
		} else if pass {
			return verdict{}
		}
	}
	if m.Err == nil && rd.cfg.Plan.IsPlain() && rd.tables.probed < envelopeProbes {
		rd.warnEnvelope(m)
	}
	for {
		table, err := rd.tables.foldLine(rd.builder.set, m.Line, l.name, rd.placeOf(m))
		if err == nil {
			rd.countMessage(l)
			return verdict{}
		}
		exists, err := rd.prepare(flushing, m, err)
		bad, rejected := errors.AsType[*feed.Error](err)
		switch {
		case rejected:
			return rd.rejectMessage(m, table, bad)
		case err != nil:
			return verdict{left: true, err: err}
		case !exists: // there is nothing to remove
			rd.countMessage(l)
			return verdict{}
		}
		rd.builder.startPeriod(l) // of another set
	}
}

// prepare does what a message needs before it is folded again, by the error of the last try: it writes what came before,
// or adds a table, unless that does not exist. Any other error is returned.
func (rd *reader) prepare(flushing context.Context, m *message, needs error) (exists bool, err error) {
	switch err := needs.(type) {
	case *feed.Error:
		return false, err
	case *mapping.NewTable:
		return rd.addTable(flushing, m, err)
	}
	if needs == fold.ErrSplit {
		return true, rd.split(flushing, m.of, m.begin, m.before)
	}
	if errors.As(needs, new(*mapping.TypeChangedError)) {
		needs = fmt.Errorf("%w: name a type for the column in a config file, or, once the feed has only the new type, %s", needs, rd.adder.check.howToRebuild())
	}
	return false, fmt.Errorf("%s line %d: %w", m.of.lane.name, rd.placeOf(m).Line, needs)
}

// split hands over the set with the lines before an index of a block. resume is where the feed resumes then.
func (rd *reader) split(flushing context.Context, e *event, at int, resume feedMark) error {
	if at > 0 {
		rd.moveTo(e, at, resume)
	}
	return rd.builder.handOver(flushing)
}

// addTable adds a table for a message. exists is false if there is no such table and the message only removes rows. A
// [*feed.Error] rejects the message.
func (rd *reader) addTable(flushing context.Context, m *message, n *mapping.NewTable) (exists bool, err error) {
	t, err := rd.adder.add(flushing, n, m.Line, rd.builder.open)
	if t == nil || err != nil {
		return false, err
	}
	// From now on all batches keep their messages.
	if fold.MayReject(&t.fitted, &t.rules) && !rd.dryRun && rd.builder.set.Rows() > 0 && !rd.tables.folders[0].Table().HasConstraints {
		if err := rd.split(flushing, m.of, m.begin, m.before); err != nil {
			return false, err
		}
	}
	rd.tables.addTable(t)
	rd.builder.set.Grow(len(rd.tables.folders))
	return true, nil
}

// placeOf returns where a message is, and its lane's index in the current set.
func (rd *reader) placeOf(m *message) fold.Place {
	e := m.of
	place := fold.Place{Lane: rd.builder.laneIndex(e.lane), Line: e.lane.reading.line + 1, Offset: e.Offset + int64(m.begin), Element: m.element}
	if e.Records != nil {
		place.Offset = e.Records[m.index].Offset
	}
	return place
}

// rejectMessage rejects a message, unless it is the last line of a file, which may not have been written completely. At
// the end of a followed file, another file has replaced it.
func (rd *reader) rejectMessage(m *message, table int, why *feed.Error) verdict {
	l, place := m.of.lane, rd.placeOf(m)
	last := m.of.Tail && m.begin+m.Size+1 >= len(m.of.Data)
	if last && why.Reason == feed.Truncated && l.kind != source.Stdin && !rd.cfg.Source.Follow {
		l.log.Warn(fmt.Sprintf("%s: the last line (line %d, byte %d) has no end yet; it is left for the next run", l.name, place.Line, place.Offset))
		return verdict{left: true}
	}
	return rd.reject(l, place, table, m.Text, why)
}

// envelopeProbes is how many messages of a run are checked for an envelope. A change stream may begin with some that
// are not rows.
const envelopeProbes = 10

// warnEnvelope warns, once, if a message looks like an envelope whose fields would become columns.
func (rd *reader) warnEnvelope(m *message) {
	l, line := m.of.lane, rd.placeOf(m).Line
	rd.tables.probed++
	if of := envelope.DetectPreset(m.Text); of != "" {
		l.log.Warn(fmt.Sprintf("%s line %d looks like a message of a change stream, whose row is in an envelope: --envelope %s reads that; without it the fields of the envelope are the columns", l.name, line, of))
		rd.tables.probed = envelopeProbes
	}
}

func (rd *reader) countMessage(l *lane) {
	l.reading.folded++
	rd.builder.addLane(l)
}

func (rd *reader) reject(l *lane, at fold.Place, table int, line []byte, why *feed.Error) verdict {
	if rd.cfg.Feed.resumes(l.kind) && l.reading.feed.seen(line) {
		return verdict{} // counted when it came first
	}
	rejected := fold.NewReject(at, table, why, line)
	rd.builder.startPeriod(l)
	continues := l.src.At != "" && l.src.At == l.from.mark.Source
	if !continues || at.Offset >= rd.counted[l.name] {
		l.progress.Reject(&rejected)
	}
	l.reading.rejected++
	l.reading.counted = at.Offset + 1
	switch rd.cfg.Rejects.To {
	case DiscardRejects:
	case FailRejects:
		return verdict{left: true, err: rejectedError(&l.start, &rejected)}
	default:
		rejected.Lane = rd.builder.laneIndex(l)
		rd.builder.addLane(l)
		rd.builder.set.Reject(rejected)
	}
	return verdict{err: tooMany(rd.cfg, rd.p.Rejected(), rejected.Detail)}
}

// rejectedError ends a run that accepts no bad lines.
func rejectedError(of *start, r *fold.Reject) error {
	place := fmt.Sprintf("line %d (byte %d)", r.Line, r.Offset)
	if of.kind == source.Partition {
		place = fmt.Sprintf("offset %d", r.Offset)
	}
	return fmt.Errorf("%w: %s %s%s: %s", ErrRejected, of.name, place, fold.ElementText(r.Element), r.Detail)
}

// tooMany ends a run that has rejected too many lines.
func tooMany(c *Config, n int64, last string) error {
	if n > c.Rejects.Max {
		return fmt.Errorf("rejected lines: %d, more than --max-rejects %d; the last: %s", n, c.Rejects.Max, last)
	}
	return nil
}
