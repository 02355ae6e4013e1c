package source

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/weirsync/weir/internal/backoff"
)

// Open opens spec, one of those that Expand returns, and goes to from; ""
// is the start. ctx bounds the opening alone: the wait for a
// file or a FIFO's writer, and decompressing what lies before from.
//
// It returns a *NotFoundError for a file that does not exist, unless it is to be followed: then
// Open waits for it; and a *ChangedError for a file that no longer matches from. Stdin is read up
// to from by the first Next, which returns the *ChangedError. FIFOs, devices and connections are
// read from where they are, whatever from is; see Start. A connection is made by the first Next.
func Open(ctx context.Context, spec string, o Options, from Cursor) (*Stream, error) {
	return open(ctx, spec, o, Point{Cursor: from})
}

func open(ctx context.Context, spec string, o Options, from Point) (*Stream, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	name, err := Name(spec)
	if err != nil {
		return nil, err
	}
	s := newStream(name, o)
	stop := context.AfterFunc(ctx, s.cancel)
	err = s.open(ctx, from)
	if !stop() {
		err = ctx.Err()
	}
	if err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

func newStream(name string, o Options) *Stream {
	s := &Stream{
		name:   name,
		traits: TraitsOf(name),
		opts:   o,
		pool:   o.Pool,
		events: make(chan Event),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.raw.ctx = s.ctx
	return s
}

func (s *Stream) open(ctx context.Context, from Point) (err error) {
	switch {
	case s.name == StdinName:
		if err := s.startAt(from.Cursor); err != nil {
			return err
		}
		s.attach(s.opts.Stdin, !isRegular(s.opts.Stdin))
		return nil
	case isDialed(s.name):
		s.dialer = newDialer(s.name, &s.opts, from.Resume)
		s.attach(s.dialer, true)
		return nil
	case isListener(s.name):
		s.waits = true
		s.listener, err = listen(ctx, s.name, &s.opts)
		return err
	}
	info, err := s.find(ctx)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &NotFoundError{s.name}
	case err != nil:
		return err
	case info.IsDir():
		return directoryError(s.name)
	case !info.Mode().IsRegular():
		f, err := openWaiting(ctx, s.name)
		if err != nil {
			return err
		}
		s.attach(f, true)
		return nil
	}
	if err := s.startAt(from.Cursor); err != nil {
		return err
	}
	if s.opts.finished(s.from, info) {
		s.done = true
		return nil
	}
	if s.file, err = os.Open(s.name); err != nil {
		return err
	}
	s.attach(s.file, s.opts.Follow)
	return s.openFile()
}

// startAt has reading begin at a cursor.
func (s *Stream) startAt(c Cursor) (err error) {
	s.at = c
	s.from, err = c.read(s.name)
	return err
}

// find looks at the file, and waits for one that is to be followed until it exists.
func (s *Stream) find(ctx context.Context) (fs.FileInfo, error) {
	for said := false; ; said = true {
		info, err := os.Stat(s.name)
		if !s.opts.Follow || !errors.Is(err, fs.ErrNotExist) {
			return info, err
		}
		if !said {
			s.opts.Log.Warn(s.name + " does not exist yet: waiting for it")
		}
		if err := backoff.Sleep(ctx, s.opts.Poll); err != nil {
			return nil, err
		}
	}
}

func (s *Stream) attach(r io.Reader, waits bool) {
	s.in, s.raw.r, s.waits = r, r, waits
	s.frame.maxLine, s.frame.live, s.frame.pool = s.opts.MaxLine, waits, s.pool
	s.frame.tail, s.frame.rewinds, s.frame.whole = !s.traits.Live, s.file != nil || !s.traits.Named, s.opts.Whole
}

// Finished reports whether spec is a file that was read to its end before, as from tells,
// and has not changed since: its Stream would be Done.
func Finished(spec string, o Options, from Cursor) bool {
	p, err := from.read(spec)
	if err != nil || p.FileSize == 0 {
		return false
	}
	info, err := os.Stat(spec)
	return err == nil && o.finished(p, info)
}

func (o *Options) finished(from position, info fs.FileInfo) bool {
	return !o.Follow && from.FileSize > 0 && from.FileSize == info.Size() && from.FileTime == info.ModTime().UnixNano()
}

// openFile begins to read a regular file.
func (s *Stream) openFile() error {
	info, err := s.file.Stat()
	if err != nil {
		return err
	}
	size, from := info.Size(), s.from
	if s.opts.Follow {
		s.follow = &follower{ctx: s.ctx, path: s.name, file: s.file, poll: s.opts.Poll, log: s.opts.Log}
		// Before begin compares the checkpoint, so that what changes after that is noticed.
		if err := s.follow.from(from.Offset); err != nil {
			return fmt.Errorf("read %s: %w", s.name, bare(err))
		}
	}
	if err := s.begin(); err != nil {
		return err
	}
	if s.format != None {
		if s.opts.Follow {
			return fmt.Errorf("follow %s: it is compressed (%s); only plain files can be followed", s.name, s.format)
		}
		return nil
	}
	if s.opts.Follow {
		s.raw.r = s.follow
		return nil
	}
	s.done = from.Offset > 0 && from.Offset == size
	return nil
}

// begin detects the compression and goes to s.from.
func (s *Stream) begin() error {
	s.forget() // what another connection was read with
	br := s.buffered(&s.raw)
	if s.format = s.opts.Compression; s.format == Auto {
		s.format = sniff(br)
	}
	src, err := decompress(br, s.format, maxWindow)
	if err != nil {
		return fmt.Errorf("decompress %s: %w", s.name, err)
	}
	if s.format == None {
		s.frame.reset(br)
	} else {
		s.frame.reset(s.buffered(src))
	}
	if s.file != nil && s.format == None {
		return s.seek(br)
	}
	return s.skip()
}

// seek goes to s.from in a plain file. br holds what was read to tell so.
func (s *Stream) seek(br *bufio.Reader) error {
	info, err := s.file.Stat()
	if err != nil {
		return err
	}
	from := s.from
	if info.Size() < from.Offset {
		return shrank(s.name, info.Size(), from)
	}
	head, err := s.readAt(0, min(headMax, from.Offset))
	if err != nil {
		return err
	}
	lastLen := min(lastMax, from.Offset)
	last, err := s.readAt(from.Offset-lastLen, lastLen)
	if err != nil {
		return err
	}
	if _, err := s.file.Seek(from.Offset, io.SeekStart); err != nil {
		return fmt.Errorf("read %s: %w", s.name, bare(err))
	}
	s.raw.n.Store(from.Offset)
	br.Reset(&s.raw)
	return s.resume(head, last)
}

func (s *Stream) readAt(off, n int64) ([]byte, error) {
	p := make([]byte, n)
	if _, err := s.file.ReadAt(p, off); err != nil {
		return nil, fmt.Errorf("read %s: %w", s.name, bare(err))
	}
	return p, nil
}

// skip reads up to s.from.
func (s *Stream) skip() error {
	past := passed{head: newHead()}
	n, err := io.CopyN(&past, s.frame.src, s.from.Offset)
	switch {
	case s.raw.err == nil && (err == io.EOF || err == io.ErrUnexpectedEOF):
		return shrank(s.name, n, s.from)
	case err != nil:
		s.frame.off = n // where it failed
		return s.failure(err)
	}
	return s.resume(past.head, past.last.bytes())
}

// resume checks that the stream is the one that s.from was kept of, and lets
// the framer begin there. head and last are the bytes at the stream's start
// and before s.from, at most headMax and lastMax of them.
func (s *Stream) resume(head, last []byte) error {
	f, from := &s.frame, s.from
	if from.Offset == 0 {
		return nil
	}
	if err := from.check(s.name, head, last); err != nil {
		return err
	}
	f.off, f.head = from.Offset, extend(f.head, head)
	f.afterTail = last[len(last)-1] != '\n'
	return nil
}

// passed takes what is skipped and keeps both ends of it.
type passed struct {
	head []byte
	last window
}

func (p *passed) Write(b []byte) (int, error) {
	p.head = extend(p.head, b)
	p.last.add(b)
	return len(b), nil
}

// openWaiting opens a FIFO or device. A FIFO waits for its writer, and where
// ctx ends first, the waiting open is left behind.
func openWaiting(ctx context.Context, path string) (*os.File, error) {
	type result struct {
		f   *os.File
		err error
	}
	opened := make(chan result)
	go func() {
		f, err := os.Open(path)
		select {
		case opened <- result{f, err}:
		case <-ctx.Done():
			f.Close()
		}
	}()
	select {
	case r := <-opened:
		return r.f, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// isRegular reports whether r is a regular file, as in `weir sync < feed`.
func isRegular(r io.Reader) bool {
	f, ok := r.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode().IsRegular()
}
