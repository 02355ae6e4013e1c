package spool

import (
	"cmp"
	"context"
	"io"
	"time"

	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/status"
)

// roomPoll is how long a pause lasts before it is reported, and how often a full disk is retried.
const roomPoll = time.Second

// An aside is what is at an offset in the spool but not on disk: which connection has sent the lines that follow, and
// maybe an event or the end.
type aside struct {
	at    int64
	conn  int
	event *source.Event
	err   error // of the last one
}

// fill reads the source, and appends its lines to the log.
func (k *Keeper) fill() {
	defer close(k.filled)
	k.setAside(aside{err: k.readSource()})
}

// setAside adds what comes after the last line.
func (k *Keeper) setAside(m aside) {
	k.mu.Lock()
	defer k.mu.Unlock()
	m.at, m.conn = k.log.End(), k.sender
	k.asides = append(k.asides, m)
	signal(k.log.grown)
}

// ahead returns what was set aside at an offset, the last connection if there is nothing else, and removes it unless it
// is the end. If it has no event and no error, the lines up to to can be read.
func (k *Keeper) ahead(at int64) (m aside, to int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	to = k.log.End()
	for len(k.asides) > 0 && m.event == nil && m.err == nil {
		next := k.asides[0]
		if next.at > at {
			return m, next.at
		}
		if m = next; m.err == nil {
			k.asides = k.asides[1:]
		}
	}
	return m, to
}

// readSource reads the source until it ends. After Stop it does not wait for room any more.
func (k *Keeper) readSource() error {
	for {
		e, err := k.in.Next(k.running)
		switch {
		case err != nil:
		case e.Kind == source.Data:
			err = k.put(&e)
		case e.Kind == source.Barrier: // everything before it is on disk
			e.Reached(source.Point{Resume: k.resume})
		default:
			k.setAside(aside{event: &e})
		}
		if err != nil {
			return err
		}
	}
}

func (k *Keeper) put(e *source.Event) error {
	b := e.Block
	if b.Oversize > 0 {
		return k.putOversize(e)
	}
	defer b.Release()
	if b.Conn != k.sender {
		k.sender = b.Conn
		k.setAside(aside{})
	}
	lines := wholeLines(b)
	if k.c.LastResume != nil {
		k.resume = cmp.Or(k.c.LastResume(lines), k.resume)
	}
	return k.append(k.running, lines)
}

// putOversize passes on an oversized line, which cannot be stored, because only its beginning is there. It waits until
// the line is committed as a reject; otherwise, after a crash, the feed would resume after it.
func (k *Keeper) putOversize(e *source.Event) error {
	end, committed := k.log.End(), make(chan struct{})
	e.Block.Offset, e.Block.Restart = end, false
	e.Block.At = func(int) source.Cursor { return k.log.cursor(end) }
	k.setAside(aside{event: e})
	k.setAside(aside{event: &source.Event{Kind: source.Barrier, Lane: k.c.Source, Reached: func(source.Point) { close(committed) }}})
	select {
	case <-committed:
		return nil
	case <-k.stopped.Done():
		return io.EOF
	}
}

// wholeLines returns a block's lines, each with its newline.
func wholeLines(b *source.Block) []byte {
	if b.Tail {
		return append(b.Data[:len(b.Data):len(b.Data)], '\n')
	}
	return b.Data
}

// append appends lines to the log. It waits while there is no room; after Stop it then returns io.EOF. A disk error ends
// the run.
func (k *Keeper) append(ctx context.Context, lines []byte) error {
	begun, reported := time.Now(), status.Cause("")
	defer func() {
		if reported != "" {
			k.c.Paused("")
		}
	}()
	poll := time.NewTicker(roomPoll)
	defer poll.Stop()
	for {
		why, err := k.tryAppend(lines)
		switch {
		case err != nil:
			k.fail(err)
			return err
		case why == "":
			return nil
		case why != reported && time.Since(begun) >= roomPoll:
			reported = why
			k.c.Paused(why)
		}
		select {
		case <-k.log.room:
		case <-poll.C:
		case <-k.stopped.Done():
			return io.EOF
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tryAppend appends lines to the log if there is room. Otherwise it returns what is full.
func (k *Keeper) tryAppend(lines []byte) (status.Cause, error) {
	begin, committed, end := k.log.Bounds()
	full := k.c.Dir != "" && end > begin && end-begin+int64(len(lines)) > k.c.Max
	var err error
	if !full {
		if err = k.log.Append(lines); !IsFull(err) {
			return "", err
		}
	}
	if k.c.Dir != "" && committed == end { // then the last segment can be removed, too
		if _, err = k.log.rotate(); err != nil && !IsFull(err) {
			return "", err
		}
		signal(k.forgetNow)
	}
	switch {
	case k.c.Dir == "", full && k.captureFull.Load():
		return status.CaptureDiskFull, nil
	case full && err == nil:
		return status.SpoolFull, nil
	}
	return status.SpoolDiskFull, nil
}
