package spool

import (
	"context"

	"github.com/weirsync/weir/internal/source"
)

// An intake writes a source's blocks to disk, and hands them over.
type intake struct {
	in       source.Source
	c        *Config
	store    *store
	handover *handover
}

// run reads the source until it or ctx ends. It waits for the reader, or for room, until waits ends.
func (w *intake) run(ctx, waits context.Context) error {
	for {
		e, err := w.in.Next(ctx)
		switch {
		case err != nil:
		case e.Kind == source.Data:
			err = w.put(waits, e)
		case e.Kind == source.Barrier: // everything before it is on disk
			e.Reached(source.Point{Resume: w.store.log.Resume()})
		default:
			err = w.pass(waits, e)
		}
		if err != nil {
			return err
		}
	}
}

func (w *intake) put(ctx context.Context, e source.Event) error {
	b := e.Block
	if b.Oversize > 0 {
		// An oversized line cannot be stored, because only its beginning is there. Wait until it is committed as a
		// reject before storing what follows; otherwise, after a crash, the feed would resume after it.
		end := w.store.log.End()
		b.Offset, b.Restart = end, false
		b.At = func(int) source.Cursor { return w.store.log.cursor(end) }
		if err := w.pass(ctx, e); err != nil {
			return err
		}
		return w.waitForCommit(ctx)
	}
	lines := wholeLines(b)
	at, err := w.store.append(ctx, lines, w.c.LastResume(lines))
	if err != nil {
		return err
	}
	b.Data, b.Offset, b.Restart, b.Tail, b.At = lines, at, false, false, w.store.log.cursors(at) // as if read from disk
	if !w.handover.publish(ctx, offer{event: &e, at: at, size: int64(len(lines))}) {
		b.Release()
	}
	return nil
}

// wholeLines returns a block's lines, each with its newline.
func wholeLines(b *source.Block) []byte {
	if b.Tail {
		return append(b.Data[:len(b.Data):len(b.Data)], '\n')
	}
	return b.Data
}

// pass hands over an event that is not written to disk.
func (w *intake) pass(ctx context.Context, e source.Event) error {
	return w.handover.give(ctx, offer{event: &e, at: w.store.log.End()})
}

// waitForCommit waits until everything handed over is committed.
func (w *intake) waitForCommit(ctx context.Context) error {
	committed := make(chan struct{})
	reached := func(source.Point) { close(committed) }
	if err := w.pass(ctx, source.Event{Kind: source.Barrier, Lane: w.c.Source, Reached: reached}); err != nil {
		return err
	}
	select {
	case <-committed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
