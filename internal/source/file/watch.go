package file

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/weirsync/weir/internal/source"
)

// maxOpen is how many followed files are open at a time. Each takes half a megabyte, a descriptor and a claim, and a
// Postgres server has room for 6,400 claims.
const maxOpen = 250

// A watch reads followed files at the same time. At each poll it looks for files that exist now, by name or by a glob,
// and offers them as lanes, in this order. Once [maxOpen] files are open, one that is at its end is closed for each
// that has more to read; if it changes, it is offered again.
type watch struct {
	names  []string // paths and globs
	opts   source.Options
	files  Options
	poll   *time.Ticker
	events chan source.Event // of the open streams
	pumps  sync.WaitGroup
	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	lanes   map[string]*watched // all files that were found
	waiting []*watched          // to be offered
	gone    []source.Event      // ends of lanes whose file vanished before it was opened
	open    []*watched          // the one that was opened first comes first
	missing map[string]bool     // names that do not exist

	mu      sync.Mutex
	stopped bool
	stop    chan struct{} // closed by Stop
	streams map[*Stream]bool
}

// A watched file is a lane of a [watch].
type watched struct {
	name    string
	waits   bool
	stream  *Stream     // nil: not open
	closing bool        // the stream was stopped, to make room
	seen    fs.FileInfo // the file when it was offered or closed last
	at      int64       // offset of the next byte to read then
}

func newWatch(names []string, o source.Options, f Options) (source.Source, error) {
	w := &watch{names: names, opts: o, files: f, poll: time.NewTicker(f.Poll), events: make(chan source.Event), stop: make(chan struct{}),
		lanes: map[string]*watched{}, missing: map[string]bool{}, streams: map[*Stream]bool{}}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w, w.look()
}

// Next implements [source.Source].
func (w *watch) Next(ctx context.Context) (source.Event, error) {
	for {
		stop := w.stop
		switch {
		case w.isStopped() && len(w.open) == 0:
			return source.Event{}, io.EOF
		case w.isStopped():
			stop = nil
		case len(w.gone) > 0:
			e := w.gone[0]
			w.gone = w.gone[1:]
			return e, nil
		case len(w.waiting) > 0 && w.hasRoom():
			l := w.waiting[0]
			w.waiting, l.waits = w.waiting[1:], false
			return source.Event{Kind: source.Opened, Lane: l.name, Begin: l.beginIn(w)}, nil
		}
		select {
		case e := <-w.events:
			if e.Kind == source.Closing {
				if err := w.close(w.lanes[e.Lane]); e.Err == nil {
					e.Err = err
				}
				if e.Err == nil && w.isStopped() {
					continue // the lane was left, not read to its end
				}
			}
			return e, nil
		case <-w.poll.C:
			if err := w.look(); err != nil {
				return source.Event{}, err
			}
		case <-stop:
		case <-ctx.Done():
			return source.Event{}, ctx.Err()
		}
	}
}

// look finds the files to offer.
func (w *watch) look() error {
	if w.isStopped() {
		return nil
	}
	for _, name := range w.names {
		found := []string{name}
		if !exists(name) && isGlob(name) {
			var err error
			if found, err = glob(name); err != nil {
				return err
			}
		}
		for _, path := range found {
			w.consider(path)
		}
	}
	return nil
}

// consider offers a file, unless it is offered or open already, or has not changed since it was closed.
func (w *watch) consider(path string) {
	l := w.lanes[path]
	if l != nil && (l.stream != nil || l.waits) {
		return
	}
	info, err := os.Stat(path)
	switch {
	case err != nil: // it may be in the middle of a rename
		if l == nil && !w.missing[path] {
			w.missing[path] = true
			w.opts.Log.Warn(path+" does not exist yet: waiting for it", "source", path)
		}
		return
	case l == nil:
		l = &watched{name: path}
		w.lanes[path] = l
	case os.SameFile(info, l.seen) && info.Size() == l.at && info.ModTime().Equal(l.seen.ModTime()):
		return
	}
	l.waits, l.seen, l.at = true, info, info.Size()
	w.waiting = append(w.waiting, l)
}

// hasRoom reports whether one more file can be opened. If not, it closes one that is at its end.
func (w *watch) hasRoom() bool {
	if len(w.open) < maxOpen {
		return true
	}
	if slices.ContainsFunc(w.open, func(l *watched) bool { return l.closing }) {
		return false
	}
	if i := slices.IndexFunc(w.open, func(l *watched) bool { return l.stream.follow != nil && l.stream.follow.idle.Load() }); i >= 0 {
		w.open[i].closing = true
		w.open[i].stream.Stop()
	}
	return false
}

// beginIn returns the function that begins the lane.
func (l *watched) beginIn(w *watch) func(context.Context, source.Point) (source.Lane, error) {
	return func(ctx context.Context, from source.Point) (source.Lane, error) {
		s, err := open(ctx, l.name, w.opts, w.files, func(path string) bool { return w.lanes[path] != nil }, from.Cursor)
		if errors.As(err, new(*source.NotFoundError)) {
			w.gone = append(w.gone, source.Event{Kind: source.Closing, Lane: l.name})
			return source.Lane{}, io.EOF
		} else if err != nil {
			return source.Lane{}, err
		}
		l.stream, l.closing = s, false
		w.open = append(w.open, l)
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.streams[s] = true; w.stopped {
			s.Stop()
		}
		w.pumps.Go(func() { w.pump(s) })
		return s.Lane(), nil
	}
}

// pump passes the events of a stream on.
func (w *watch) pump(s *Stream) {
	for {
		e, err := s.NextEvent(w.ctx)
		if err != nil {
			e = source.Event{Kind: source.Closing, Lane: s.Name}
			if err != io.EOF {
				e.Err = err
			}
		}
		select {
		case w.events <- e:
		case <-w.ctx.Done():
			if e.Block != nil {
				e.Block.Release()
			}
			return
		}
		if err != nil {
			return
		}
	}
}

// close closes a lane's stream.
func (w *watch) close(l *watched) error {
	s := l.stream
	if s.follow != nil {
		l.at = s.follow.at
		l.seen, _ = s.follow.file.Stat()
	}
	err := s.Close()
	l.stream = nil
	w.open = slices.DeleteFunc(w.open, func(o *watched) bool { return o == l })
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.streams, s)
	return err
}

func (w *watch) isStopped() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stopped
}

// Stop implements [source.Source].
func (w *watch) Stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	w.stopped = true
	close(w.stop)
	for s := range w.streams {
		s.Stop()
	}
}

// Close implements [source.Source].
func (w *watch) Close() (err error) {
	w.poll.Stop()
	w.cancel()
	w.pumps.Wait()
	for len(w.open) > 0 {
		err = errors.Join(err, w.close(w.open[0]))
	}
	return err
}
