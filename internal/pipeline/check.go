package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/quantity"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/status"
)

// Check does what Run does before it reads lines: it reads the tables, compares the settings with the checkpoints, and
// opens each source, for a moment. It writes and claims nothing, and joins no group. read and claims are nil if unknown.
func Check(ctx context.Context, c Config, caps sink.Caps, read sink.ReadTables, claims sink.Claims, found func(about, text string, err error)) {
	c.Source.RetryFor, c.Retry = 0, sink.Retry{}
	r := newRun(&c, viewer{caps: caps, read: read}, claims, status.New())
	var a *attempt
	var err error
	if read != nil {
		a, err = r.begin(ctx, newHistory(len(c.Plan.Tables)), nil)
	}
	switch {
	case errors.As(err, new(*sink.Error)):
		found("database", "", err)
	case err != nil:
		found("tables", "", err)
	case read != nil:
		for i := range a.check.found {
			found(tableList([]string{a.check.found[i].Name}), tableText(&a.check.found[i]), nil)
		}
	}
	if read == nil || err != nil {
		r.db, r.claims = viewer{caps: caps, read: sink.NoTables}, unclaimed{}
		if a, err = r.begin(ctx, newHistory(len(c.Plan.Tables)), nil); err != nil {
			return // a fault of the settings, reported as such
		}
	}
	names, src, err := a.findLanes(ctx)
	if err != nil {
		found(strings.Join(c.Sources, ", "), "", err)
		return
	}
	starts, err := a.findStarts(ctx, names)
	if err != nil {
		found("checkpoint", "", err)
	}
	if src != nil {
		found(c.Sources[0], "has "+quantity.Count(int64(len(names)), "partition"), src.Close())
		return
	}
	for i := range starts {
		text, err := a.tryOpen(ctx, &starts[i])
		found(starts[i].name, text, err)
	}
}

func tableText(t *schema.Table) string {
	if !t.Exists {
		return "is missing: a run creates it"
	}
	key := "no key"
	if len(t.Key) > 0 {
		key = "the key " + strings.Join(t.KeyColumns(), ", ")
	}
	return fmt.Sprintf("has %s and %s", quantity.Count(int64(len(t.Columns)), "column"), key)
}

// tryOpen opens a source where the run continues, and closes it. It takes nothing that can be read only once.
func (a *attempt) tryOpen(ctx context.Context, s *start) (text string, err error) {
	c, o, names := a.cfg, a.sourceOptions(), []string{s.name}
	if s.kind == source.File && o.Follow {
		if names, err = c.Kind.Parse(s.name, false); errors.As(err, new(*source.NotFoundError)) {
			return "is missing: a run waits for it", nil
		} else if err != nil {
			return "", err
		}
	}
	if info, err := os.Stat(names[0]); !s.kind.Live() && (s.kind == source.Stdin || err == nil && !info.Mode().IsRegular() && !info.IsDir()) {
		return "is not opened, because it can be read only once", nil
	}
	connected, done := context.WithCancel(ctx)
	defer done()
	o.Hello, o.Follow, o.Observer = nil, false, connection{done: done}
	src, err := c.Kind.Open(ctx, names, o)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	e, err := src.Next(ctx)
	if err != nil {
		return "", err
	}
	l, err := e.Begin(ctx, source.Point{Cursor: s.from.mark.Source, Resume: s.from.mark.Feed.Resume})
	if err == io.EOF {
		return "has been read to its end", nil
	} else if err != nil {
		return "", err
	}
	if l.Addr != nil {
		return "takes connections at " + l.Addr.String(), nil
	}
	e, err = src.Next(connected)
	if e.Block != nil {
		e.Block.Release()
	}
	switch err = cmp.Or(err, e.Err); { // e.Err: of a lane that has ended
	case connected.Err() != nil && ctx.Err() == nil:
		return "can be connected to", nil
	case err != nil && err != io.EOF:
		return "", err
	case s.from.line > 0:
		return "is read from line " + quantity.Grouped(s.from.line+1), nil
	}
	return "is read from the start", nil
}

// A connection calls done once it is established.
type connection struct {
	source.Unobserved
	done context.CancelFunc
}

// SetConnections implements [source.Observer].
func (c connection) SetConnections(_ string, n int) {
	if n > 0 {
		c.done()
	}
}
