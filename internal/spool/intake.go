package spool

import (
	"context"
	"time"

	"github.com/weirsync/weir/internal/source"
)

// roomPoll is how long reading pauses before it says so, or tries a full disk again.
const roomPoll = time.Second

// An intake puts the blocks of a source on disk, and hands them over.
type intake struct {
	in         source.Source
	lane       string
	log        *Log
	max        int64 // bytes that the log may have; 0: it is for the capture alone, and not read
	handover   *handover
	level      *level
	keeper     *keeper
	cursors    func(at int64) func(end int) source.Cursor
	lastResume func(lines []byte) string
	fail       func(error) // hears of an error of the disk
	paused     func(Pause)
}

// run reads the source until it or ctx ends. It waits for the reader, or for room, until waits ends.
func (w *intake) run(ctx, waits context.Context) error {
	for {
		e, err := w.in.Next(ctx)
		switch {
		case err != nil:
		case e.Kind == source.Data:
			err = w.put(waits, e)
		case e.Kind == source.Barrier && w.max > 0: // what came before is on disk
			e.Reached(source.Point{Resume: w.log.Resume()})
		default:
			err = w.pass(waits, e)
		}
		if err != nil {
			return err
		}
	}
}

func (w *intake) put(ctx context.Context, e source.Event) error {
	b, durable := e.Block, w.max > 0
	switch {
	case b.Oversize > 0 && !durable:
		return w.pass(ctx, e)
	case b.Oversize > 0:
		// It has no end to be kept by. So what comes behind it waits until it is committed
		// as a reject: else the feed would be asked for what comes behind it.
		_, end := w.log.Bounds()
		b.Offset, b.Restart = end, false
		b.At = func(int) source.Cursor { return w.cursors(end)(0) }
		if err := w.pass(ctx, e); err != nil {
			return err
		}
		return w.waitForCommit(ctx)
	}
	lines := b.Data
	if b.Tail {
		lines = append(lines[:len(lines):len(lines)], '\n')
	}
	o := offer{event: &e, size: int64(len(lines))}
	var err error
	if o.at, err = w.append(ctx, lines); err != nil {
		if ctx.Err() == nil {
			w.fail(err)
		}
		return err
	}
	if !durable {
		w.level.committed(o.at + o.size)
		return w.handover.give(ctx, o)
	}
	b.Data, b.Offset, b.Restart, b.Tail, b.At = lines, o.at, false, false, w.cursors(o.at) // as if it came from the disk
	if !w.handover.publish(ctx, o) {
		b.Release()
	}
	return nil
}

// pass hands over an event that is not put on disk.
func (w *intake) pass(ctx context.Context, e source.Event) error {
	_, end := w.log.Bounds()
	return w.handover.give(ctx, offer{event: &e, at: end})
}

// waitForCommit waits until all that was handed over is committed.
func (w *intake) waitForCommit(ctx context.Context) error {
	committed := make(chan struct{})
	reached := func(source.Point) { close(committed) }
	if err := w.pass(ctx, source.Event{Kind: source.Barrier, Lane: w.lane, Reached: reached}); err != nil {
		return err
	}
	select {
	case <-committed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// append puts lines on disk, when there is room.
func (w *intake) append(ctx context.Context, lines []byte) (at int64, err error) {
	resume := w.lastResume(lines)
	start, said := time.Now(), Reading
	for {
		size := w.log.Size()
		full := w.max > 0 && size > 0 && size+int64(len(lines)) > w.max
		if !full {
			if at, err = w.log.Append(lines, resume); err == nil {
				break
			} else if !IsFull(err) {
				return 0, err
			}
		}
		if why := w.pause(full); why != said && time.Since(start) >= roomPoll {
			said = why
			w.paused(why)
		}
		if full && w.level.drained() {
			// What is left is the segment that is appended to.
			if err := w.keeper.empty(ctx); err != nil {
				return 0, err
			}
			if w.log.Size() == 0 {
				continue
			}
		}
		if err := w.level.wait(ctx, roomPoll); err != nil {
			return 0, err
		}
	}
	if said != Reading {
		w.paused(Reading)
	}
	w.level.appended(at + int64(len(lines)))
	return at, nil
}

// pause returns what lines wait for: the log has reached its limit, or else there is no room on its disk.
func (w *intake) pause(full bool) Pause {
	switch {
	case w.max == 0, full && w.keeper.captureFull.Load():
		return CaptureDiskFull
	case full:
		return Full
	}
	return DiskFull
}
