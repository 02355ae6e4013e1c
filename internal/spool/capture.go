package spool

import (
	"cmp"
	"context"
	"errors"

	"github.com/weirsync/weir/internal/source"
)

// A Capture is a source that keeps all lines of another one: they are in a log before they are handed on, and
// its segments become [Captures] in the end. One goroutine calls Next.
type Capture struct {
	in    source.Source
	store *store
}

// NewCapture returns the capture of a source. Its folder is taken when the source's lane is begun.
func NewCapture(in source.Source, c Config) *Capture {
	s := newStore(&c)
	context.AfterFunc(s.failed, in.Stop)
	return &Capture{in, s}
}

// Next implements source.Source. It waits for room on the disk.
func (c *Capture) Next(ctx context.Context) (source.Event, error) {
	e, err := c.in.Next(ctx)
	switch begin := e.Begin; {
	case begin != nil && c.store.log == nil:
		e.Begin = func(ctx context.Context, from source.Point) (source.Lane, error) { return c.begin(ctx, from, begin) }
	case err == nil && e.Kind == source.Data && e.Block.Oversize == 0: // else there is only its beginning
		err = c.keep(ctx, wholeLines(e.Block))
	}
	return e, cmp.Or(c.store.failure(), err)
}

// begin opens the log, and has the source begin its lane.
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

func (c *Capture) keep(ctx context.Context, lines []byte) error {
	at, err := c.store.append(ctx, lines, "")
	if err == nil {
		c.store.level.committed(at + int64(len(lines))) // nobody reads them here
	}
	return err
}

// Stop implements source.Source.
func (c *Capture) Stop() { c.in.Stop() }

// Close implements source.Source. The last lines are compressed, too.
func (c *Capture) Close() error {
	c.store.stop()
	if c.store.level == nil { // it was not begun
		return c.in.Close()
	}
	return c.store.closeWith(c.in)
}
