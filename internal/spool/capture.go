package spool

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/weirsync/weir/internal/source"
)

// A Capture is a source that keeps all lines of another one. Lines are written to a log before Next returns them, and
// the log's segments become [Captures]. One goroutine calls Next.
type Capture struct {
	in      source.Source
	store   *store
	stopped context.Context // ends with Stop
	stop    context.CancelFunc
}

// NewCapture returns a capture of a source. Its folder is locked when the source's lane is begun.
func NewCapture(in source.Source, c Config) *Capture {
	s := newStore(&c)
	context.AfterFunc(s.failed, in.Stop)
	stopped, stop := context.WithCancel(context.Background())
	return &Capture{in, s, stopped, stop}
}

// Next implements source.Source. While the disk is full it waits, until Stop. It then drops the lines, because it
// returns none that were not captured.
func (c *Capture) Next(ctx context.Context) (source.Event, error) {
	e, err := c.in.Next(ctx)
	switch begin := e.Begin; {
	case begin != nil && c.store.log == nil:
		e.Begin = func(ctx context.Context, from source.Point) (source.Lane, error) { return c.begin(ctx, from, begin) }
	case err == nil && e.Kind == source.Data && e.Block.Oversize == 0: // only its beginning is there
		if err = c.write(ctx, e.Block); err == io.EOF {
			e.Block.Release()
			e = source.Event{}
		}
	}
	return e, cmp.Or(c.store.failure(), err)
}

// begin opens the log, and begins the source's lane.
func (c *Capture) begin(ctx context.Context, from source.Point, begin beginFunc) (l source.Lane, err error) {
	s := c.store
	if err := s.open(); err != nil {
		return nil, err
	}
	if l, err = begin(ctx, from); err != nil {
		return nil, errors.Join(err, s.close())
	}
	s.start(s.log.End(), func(int64) {})
	return l, nil
}

// write appends a block's lines to the log. It returns io.EOF if Stop is called while the disk is full.
func (c *Capture) write(ctx context.Context, b *source.Block) error {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.stopped, cancel)()
	lines := wholeLines(b)
	at, err := c.store.append(waiting, lines, "")
	switch {
	case err == nil:
		c.store.level.committed(at + int64(len(lines))) // nothing reads them here
	case errors.Is(err, context.Canceled) && ctx.Err() == nil:
		if !c.store.c.Repeats {
			c.store.c.Log.Warn(fmt.Sprintf("stopped while the capture's disk was full: %d lines that were read last are lost", bytes.Count(lines, []byte{'\n'})))
		}
		return io.EOF
	}
	return err
}

// Stop implements source.Source.
func (c *Capture) Stop() {
	c.stop()
	c.in.Stop()
}

// Close implements source.Source. It compresses the last lines, too.
func (c *Capture) Close() error {
	c.store.stop()
	if c.store.level == nil { // it was not begun
		return c.in.Close()
	}
	return c.store.closeWith(c.in)
}
