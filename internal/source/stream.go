package source

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Stream reads one source. It reads one block ahead, on a goroutine of its
// own. Size, RawOffset and the fixed properties may be used from any
// goroutine, Next from one at a time.
type Stream struct {
	name   string
	traits Traits
	opts   Options
	waits  bool
	done   bool
	from   position // where reading begins
	at     Cursor   // the same

	in     io.Reader // stdin, a connection, or what file is
	file   *os.File  // a regular file that was opened by its path, else nil
	follow *follower // nil unless file is followed
	dialer *dialer   // nil unless weir makes the connection

	listener *listener // nil unless others connect

	pool    *Pool
	readers []*bufio.Reader // that are the pool's
	raw     raw
	format  string // of compression, once it is told
	frame   framer

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	start  sync.Once
	events chan Event // closed after err is set
	err    error
}

// Name is what a checkpoint of the source is kept under: the absolute path of
// a file (symbolic links not resolved), "stdin", or "tcp://host:port".
func (s *Stream) Name() string { return s.name }

// Start is where reading begins: the cursor that Open was given, or "" for a source that
// cannot go back (a FIFO, a device, a connection).
func (s *Stream) Start() Cursor { return s.at }

// Traits are those of the kind of source.
func (s *Stream) Traits() Traits { return s.traits }

// Waits reports whether the source may make its reader wait: all but regular
// files that are not followed.
func (s *Stream) Waits() bool { return s.waits }

// Done reports whether the source is a file that was read to its end before
// and has not changed since. Next has nothing to give then.
func (s *Stream) Done() bool { return s.done }

// Size is that of the file now, in raw bytes; 0 where there is none to know, and of one that is
// Done.
func (s *Stream) Size() int64 {
	if s.file == nil {
		return 0
	}
	info, err := os.Stat(s.name)
	if err != nil {
		return 0
	}
	return info.Size()
}

// RawOffset is how many bytes of the source were read so far, compressed ones
// where it is compressed, and those before Start included where it was read
// or sought over.
func (s *Stream) RawOffset() int64 { return s.raw.n.Load() }

// Next returns the next block, which is the caller's until Release. It returns
// io.EOF at the end, another error after the lines before it, and ctx's error
// as soon as ctx ends; in that case it may be called again.
func (s *Stream) Next(ctx context.Context) (*Block, error) {
	e, err := s.next(ctx)
	return e.Block, err
}

// next is Next for all that comes: blocks, and what a connection asks for.
func (s *Stream) next(ctx context.Context) (Event, error) {
	if err := ctx.Err(); err != nil {
		return Event{}, err
	}
	if s.done {
		return Event{}, io.EOF
	}
	s.start.Do(func() { go s.run() })
	select {
	case e, ok := <-s.events:
		if !ok {
			return Event{}, s.err
		}
		return e, nil
	case <-ctx.Done():
		return Event{}, ctx.Err()
	}
}

// send hands an event to next.
func (s *Stream) send(e Event) error {
	e.Lane = s.name
	select {
	case s.events <- e:
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

// Close ends reading and frees what the stream holds, but for Options.Stdin,
// which is not closed: a read that hangs there is left behind. It must not
// run together with Next.
func (s *Stream) Close() error {
	s.cancel()
	s.start.Do(func() {
		s.err = fs.ErrClosed
		close(s.events)
	})
	if s.interrupt() {
		for e := range s.events { // until run has ended
			if e.Block != nil {
				e.Block.Release()
			}
		}
		s.forget()
	}
	if s.follow != nil {
		return s.follow.file.Close()
	}
	if c, ok := s.in.(io.Closer); ok && s.traits.Named {
		return c.Close()
	}
	s.deadline(time.Time{})
	return nil
}

// buffered returns a reader of r, which is good until forget.
func (s *Stream) buffered(r io.Reader) *bufio.Reader {
	br := s.pool.reader(r)
	s.readers = append(s.readers, br)
	return br
}

// forget gives back what was read with.
func (s *Stream) forget() {
	s.frame.drop()
	for _, br := range s.readers {
		s.pool.putReader(br)
	}
	s.readers = s.readers[:0]
}

// interrupt makes a read return that waits, and reports whether it will.
func (s *Stream) interrupt() bool {
	switch {
	case s.dialer != nil:
		_ = s.dialer.Close()
		return true
	case s.listener != nil:
		_ = s.listener.Close()
		return true
	}
	return s.in == nil || s.file != nil || s.deadline(time.Now())
}

// deadline sets that of reads, and reports whether the source can have one.
func (s *Stream) deadline(t time.Time) bool {
	d, ok := s.in.(interface{ SetReadDeadline(time.Time) error })
	return ok && d.SetReadDeadline(t) == nil
}

// run hands out blocks until the stream ends or is closed.
func (s *Stream) run() {
	s.err = s.produce()
	if s.ctx.Err() != nil {
		s.err = fmt.Errorf("read %s: %w", s.name, fs.ErrClosed)
	}
	close(s.events)
}

func (s *Stream) produce() error {
	switch {
	case s.dialer != nil:
		return s.produceDialed()
	case s.listener != nil:
		return s.produceSent()
	case s.file == nil:
		if err := s.begin(); err != nil { // not in Open, because it may wait
			return err
		}
	}
	return s.deliver()
}

// deliver hands out blocks until the stream ends.
func (s *Stream) deliver() error {
	for {
		b, err := s.frame.next()
		switch {
		case err == io.EOF && s.follow != nil:
			if err := s.reopen(); err != nil {
				return err
			}
			continue
		case err == io.EOF:
			return io.EOF
		case err != nil:
			return s.failure(err)
		}
		s.markEnd(b)
		if s.dialer != nil {
			b.Conn = s.dialer.conns
		}
		if err := s.send(Event{Block: b}); err != nil {
			return err
		}
	}
}

// markEnd notes in the last block of a file how it was when its end was
// reached. A file that has grown since is not at its end.
func (s *Stream) markEnd(b *Block) {
	if s.file == nil || s.follow != nil || !s.frame.ended() {
		return
	}
	if info, err := s.file.Stat(); err == nil && info.Size() == s.raw.n.Load() {
		b.fileSize, b.fileTime = info.Size(), info.ModTime().UnixNano()
	}
}

// reopen continues with the file that a followed file was replaced by.
func (s *Stream) reopen() error {
	if err := s.follow.reopen(); err != nil {
		return err
	}
	s.raw.n.Store(0)
	s.frame.src.Reset(&s.raw)
	s.frame.reset(s.frame.src)
	s.frame.restart, s.frame.hole = true, true
	return nil
}

// failure words an error of reading.
func (s *Stream) failure(err error) error {
	switch {
	case err == errUTF16:
		return fmt.Errorf("%s %w", s.name, err)
	case s.raw.err == nil && s.format != None:
		return fmt.Errorf("decompress %s: %s %s after %d decompressed bytes (the complete lines before that were read): %w",
			s.name, s.format, fault(err, maxWindow), s.frame.pos(), err)
	case s.raw.err != nil:
		err = s.raw.err // a decompressor may have changed it
	}
	return fmt.Errorf("read %s: %w", s.name, bare(err))
}

// bare removes what an error of the system says about the operation and the
// name, which is said better above it.
func bare(err error) error {
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		return pe.Err
	}
	if oe := (*net.OpError)(nil); errors.As(err, &oe) {
		return oe.Err
	}
	return err
}

// raw counts the bytes of a source and keeps its error: a failing disk is not
// to be taken for corrupt data, and a socket reports a reset only once.
type raw struct {
	ctx context.Context
	r   io.Reader
	n   atomic.Int64
	err error // first one that is not io.EOF
}

func (r *raw) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	if r.err = r.ctx.Err(); r.err != nil {
		return 0, r.err
	}
	n, err := r.r.Read(p)
	r.n.Add(int64(n))
	if err != nil && err != io.EOF {
		r.err = err
	}
	return n, err
}
