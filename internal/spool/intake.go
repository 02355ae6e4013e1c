package spool

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/weirsync/weir/internal/source"
)

// roomPoll is how long a pause lasts before it is reported, and how often a full disk is retried.
const roomPoll = time.Second

// An intake reads a source, and appends its lines to a spool.
type intake struct {
	k      *Keeper
	resume string        // the last resume value in the spool; owned by fill's goroutine, as conn is
	conn   int           // that sent the last block
	done   chan struct{} // closed when everything read from the source is in the spool

	mu     sync.Mutex // held briefly
	asides []aside    // for Keeper.read
}

// An aside is what is at an offset in the spool but not on disk: which connection has sent the lines that follow, and
// maybe an event or the end.
type aside struct {
	at    int64
	conn  int
	event *source.Event
	err   error // of the last one
}

func (w *intake) fill() {
	defer close(w.done)
	w.setAside(aside{err: w.run()})
}

// setAside adds what comes after the last line.
func (w *intake) setAside(m aside) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m.at, m.conn = w.k.log.End(), w.conn
	w.asides = append(w.asides, m)
	signal(w.k.log.grown)
}

// ahead returns what was set aside at an offset, the last connection if there is nothing else, and removes it unless it
// is the end. If it has no event and no error, the lines up to to can be read.
func (w *intake) ahead(at int64) (m aside, to int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	to = w.k.log.End()
	for len(w.asides) > 0 && m.event == nil && m.err == nil {
		next := w.asides[0]
		if next.at > at {
			return m, next.at
		}
		if m = next; m.err == nil {
			w.asides = w.asides[1:]
		}
	}
	return m, to
}

// run reads the source until it ends. After Stop it does not wait for room any more.
func (w *intake) run() error {
	for {
		e, err := w.k.in.Next(w.k.running)
		switch {
		case err != nil:
		case e.Kind == source.Data:
			err = w.put(&e)
		case e.Kind == source.Barrier: // everything before it is on disk
			e.Reached(source.Point{Resume: w.resume})
		default:
			w.setAside(aside{event: &e})
		}
		if err != nil {
			return err
		}
	}
}

func (w *intake) put(e *source.Event) error {
	b := e.Block
	if b.Oversize > 0 {
		return w.putOversize(e)
	}
	defer b.Release()
	if b.Conn != w.conn {
		w.conn = b.Conn
		w.setAside(aside{})
	}
	lines, resume := wholeLines(b), w.resume
	if w.k.c.LastResume != nil {
		resume = cmp.Or(w.k.c.LastResume(lines), resume)
	}
	err := w.k.append(w.k.stopped, lines)
	if err == nil {
		w.resume = resume
	}
	return err
}

// putOversize passes on an oversized line, which cannot be stored, because only its beginning is there. It waits until
// the line is committed as a reject; otherwise, after a crash, the feed would resume after it.
func (w *intake) putOversize(e *source.Event) error {
	end, committed := w.k.log.End(), make(chan struct{})
	e.Block.Offset, e.Block.Restart = end, false
	e.Block.At = func(int) source.Cursor { return w.k.log.cursor(end) }
	w.setAside(aside{event: e})
	w.setAside(aside{event: &source.Event{Kind: source.Barrier, Lane: w.k.c.Source, Reached: func(source.Point) { close(committed) }}})
	select {
	case <-committed:
		return nil
	case <-w.k.stopped.Done():
		return w.k.stopped.Err()
	}
}

// wholeLines returns a block's lines, each with its newline.
func wholeLines(b *source.Block) []byte {
	if b.Tail {
		return append(b.Data[:len(b.Data):len(b.Data)], '\n')
	}
	return b.Data
}

// append appends lines to the log. It waits while there is no room. A disk error ends the run.
func (k *Keeper) append(ctx context.Context, lines []byte) error {
	start, reported := time.Now(), Reading
	poll := time.NewTicker(roomPoll)
	defer poll.Stop()
	for {
		why, err := k.tryAppend(lines)
		if err != nil {
			k.fail(err)
			return err
		}
		if why != reported && (why == Reading || time.Since(start) >= roomPoll) {
			reported = why
			k.c.Paused(why)
		}
		if why == Reading {
			return nil
		}
		select {
		case <-k.log.room:
		case <-poll.C:
		case <-ctx.Done():
			if reported != Reading {
				k.c.Paused(Reading)
			}
			return ctx.Err()
		}
	}
}

// tryAppend appends lines to the log if there is room. Otherwise it returns what is full.
func (k *Keeper) tryAppend(lines []byte) (Pause, error) {
	begin, committed, end := k.log.Bounds()
	full := k.c.Dir != "" && end > begin && end-begin+int64(len(lines)) > k.c.Max
	var err error
	if !full {
		err = k.log.Append(lines)
	} else if committed == end { // then the last segment can be removed, too
		_, err = k.log.rotate()
		signal(k.forgetNow)
	}
	switch {
	case err != nil && !IsFull(err), err == nil && !full:
		return Reading, err
	case k.c.Dir == "", full && k.captureFull.Load():
		return CaptureDiskFull, nil
	case full && err == nil:
		return Full, nil
	}
	return DiskFull, nil
}
