// Package file reads files, FIFOs, devices and stdin.
package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"time"

	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/source/lines"
)

// New returns a source that reads files and stdin one after the other, but with Follow, files at the same time. Files
// are named by absolute path. With Follow, a name may be a glob, or of a file that does not exist yet.
func New(names []string, o source.Options, f Options) (source.Source, error) {
	o, err := o.WithDefaults()
	if err != nil {
		return nil, err
	}
	f = f.withDefaults()
	if o.Follow && !slices.Contains(names, source.StdinName) {
		return newWatch(names, o, f)
	}
	isLane := func(path string) bool { return slices.Contains(names, path) }
	return source.Series(names, func(ctx context.Context, name string, from source.Point) (source.Stream, error) {
		s, err := open(ctx, name, o, f, isLane, from.Cursor)
		if err != nil {
			return nil, err
		}
		if s.Done() {
			err = io.EOF
		}
		return s, err
	}), nil
}

// A Stream reads one file or stdin.
type Stream struct {
	*lines.Stream
	reader lines.Reader
	opts   source.Options
	files  Options
	isLane func(path string) bool // reports whether the run reads a file as a lane of its own
	waits  bool
	done   bool
	from   lines.Position // where reading begins
	at     source.Cursor  // from as a cursor

	in     io.Reader // stdin, or the opened file
	file   *os.File  // a regular file opened by its path, else nil
	follow *follower // nil unless the file is followed, or was rotated since it was read
}

// Open opens a file or stdin at from; "" is the start. ctx bounds only the opening: the wait for a FIFO's writer, and
// the decompression of what precedes from.
//
// It returns a *NotFoundError if the file does not exist, and a *ChangedError if the file no longer matches from. Stdin
// is read up to from by the first Next, which returns the *ChangedError. FIFOs and devices are read from their current
// position, whatever from is.
func Open(ctx context.Context, spec string, o source.Options, f Options, from source.Cursor) (*Stream, error) {
	name, err := nameOf(spec)
	if err != nil {
		return nil, err
	}
	if o, err = o.WithDefaults(); err != nil {
		return nil, err
	}
	return open(ctx, name, o, f.withDefaults(), func(path string) bool { return path == name }, from)
}

// open is Open with defaults filled in.
func open(ctx context.Context, name string, o source.Options, f Options, isLane func(path string) bool, from source.Cursor) (*Stream, error) {
	o.Log = o.Log.With("source", name)
	s := &Stream{opts: o, files: f, isLane: isLane}
	s.Stream = lines.NewStream(name, s.produce, s.interrupt)
	stop := context.AfterFunc(ctx, s.Cancel)
	err := s.open(ctx, from)
	if !stop() {
		err = ctx.Err()
	}
	if err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Stream) open(ctx context.Context, from source.Cursor) error {
	if s.Name == source.StdinName {
		if err := s.startAt(from); err != nil {
			return err
		}
		s.attach(s.files.Stdin, !isRegular(s.files.Stdin))
		return nil
	}
	info, err := os.Stat(s.Name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return notFound(s.Name)
	case err != nil:
		return err
	case info.IsDir():
		return directoryError(s.Name)
	case !info.Mode().IsRegular():
		f, err := openWaiting(ctx, s.Name)
		if err != nil {
			return err
		}
		s.attach(f, true)
		return nil
	}
	if err := s.startAt(from); err != nil {
		return err
	}
	if s.done = isFinished(&s.opts, s.from, info); s.done {
		return nil
	}
	if s.file, err = s.openRead(); err != nil {
		return err
	}
	s.attach(s.file, s.opts.Follow)
	return s.openFile()
}

// startAt sets the cursor at which reading begins.
func (s *Stream) startAt(c source.Cursor) (err error) {
	s.at = c
	s.from, err = lines.ReadCursor(c, s.Name)
	return err
}

func (s *Stream) attach(r io.Reader, waits bool) {
	s.in, s.waits = r, waits
	s.reader.Init(s.Ctx, s.Name, r, &s.opts)
	s.reader.Live, s.reader.Tail, s.reader.Rewinds = waits, true, s.file != nil || s.Name == source.StdinName
}

// Finished reports whether from is the end of a file that has not changed since: its Stream would be Done.
func Finished(name string, o source.Options, from source.Cursor) bool {
	p, err := lines.ReadCursor(from, name)
	if err != nil || p.FileSize == 0 {
		return false
	}
	info, err := os.Stat(name)
	return err == nil && isFinished(&o, p, info)
}

func isFinished(o *source.Options, from lines.Position, info fs.FileInfo) bool {
	return !o.Follow && from.FileSize > 0 && from.FileSize == info.Size() && from.FileTime == info.ModTime().UnixNano()
}

// openFile opens a regular file for reading.
func (s *Stream) openFile() error {
	info, err := s.file.Stat()
	if err != nil {
		return err
	}
	size := info.Size()
	current := sameFile(s.file, s.Name) == nil
	if s.opts.Follow || !current {
		s.follow = &follower{ctx: s.Ctx, path: s.Name, file: s.file, bounded: !s.opts.Follow, poll: s.files.Poll, rotateWait: s.files.RotateWait, log: s.opts.Log}
		// Before begin compares the checkpoint, so later changes are noticed.
		if err := s.follow.from(s.from.Offset); err != nil {
			return fmt.Errorf("read %s: %w", s.Name, lines.Bare(err))
		}
	}
	if err := s.begin(); err != nil {
		return err
	}
	switch packed := s.reader.Format() != source.None; {
	case s.follow != nil && !packed:
		s.reader.Raw.R = s.follow
	case s.opts.Follow && current:
		return fmt.Errorf("follow %s: it is compressed (%s); only plain files can be followed", s.Name, s.reader.Format())
	case s.follow != nil:
		s.follow.at = size
	case !packed:
		s.done = s.from.Offset > 0 && s.from.Offset == size
	}
	return nil
}

// reopen continues with the next file, which has replaced a followed one. It may be compressed by now.
func (s *Stream) reopen() (err error) {
	if err := s.follow.reopen(); err != nil {
		return err
	}
	s.file = s.follow.file
	s.reader.Raw.R = io.NewSectionReader(s.file, 0, math.MaxInt64)
	if err := s.reader.Begin(); err != nil {
		return err
	}
	if s.reader.Format() == source.None {
		s.reader.Raw.R = s.follow
	} else if s.follow.at, err = s.file.Seek(0, io.SeekEnd); err != nil {
		return fmt.Errorf("read %s: %w", s.Name, lines.Bare(err))
	}
	s.reader.Restarted()
	return nil
}

// begin detects the compression and moves to s.from.
func (s *Stream) begin() error {
	if err := s.reader.Begin(); err != nil {
		return err
	}
	if s.file != nil && s.reader.Format() == source.None {
		return s.seek()
	}
	return s.reader.Skip(s.from)
}

// seek moves to s.from in a plain file.
func (s *Stream) seek() error {
	head, last, err := readEnds(s.file, s.Name, s.from)
	if err != nil {
		return err
	}
	if _, err := s.file.Seek(s.from.Offset, io.SeekStart); err != nil {
		return fmt.Errorf("read %s: %w", s.Name, lines.Bare(err))
	}
	s.reader.Again(s.from.Offset)
	return s.reader.Resume(s.from, head, last)
}

// readEnds returns the bytes of f that a position knows: at the start, and before its offset.
func readEnds(f *os.File, name string, p lines.Position) (head, last []byte, err error) {
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if info.Size() < p.Offset {
		return nil, nil, lines.Shrank(name, info.Size(), p)
	}
	head, last = make([]byte, min(lines.HeadMax, p.Offset)), make([]byte, min(lines.LastMax, p.Offset))
	if _, err = f.ReadAt(head, 0); err == nil {
		_, err = f.ReadAt(last, p.Offset-int64(len(last)))
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", name, lines.Bare(err))
	}
	return head, last, nil
}

// Lane implements [source.Stream].
func (s *Stream) Lane() source.Lane {
	l := source.Lane{At: s.at, Waits: s.waits, Raw: func() (offset, size int64) { return s.RawOffset(), s.size() }}
	if s.in != nil && !s.reader.Rewinds {
		l.Type = source.FIFO
	}
	return l
}

// Done reports whether the file was already read to its end and has not changed since. Next then returns only io.EOF.
func (s *Stream) Done() bool { return s.done }

// size returns the file's current size in raw bytes. It is 0 if the size is unknown, and for a file that is Done.
func (s *Stream) size() int64 {
	if s.in == nil || s.Name == source.StdinName {
		return 0
	}
	info, err := os.Stat(s.Name)
	if err != nil || !info.Mode().IsRegular() {
		return 0
	}
	return info.Size()
}

// RawOffset returns the number of raw bytes read so far (compressed bytes, if the file is compressed). Bytes before the
// starting point count if they were read or skipped by a seek.
func (s *Stream) RawOffset() int64 { return s.reader.Raw.N.Load() }

// produce hands out blocks until the stream ends.
func (s *Stream) produce() error {
	if s.done {
		return io.EOF
	}
	if s.file == nil {
		if err := s.begin(); err != nil { // not in Open, because it may block
			return err
		}
	}
	for {
		b, err := s.reader.Next()
		switch {
		case err == io.EOF && s.follow != nil && !s.follow.atEnd():
			if err := s.reopen(); err != nil {
				return err
			}
			continue
		case err == io.EOF:
			return io.EOF
		case err != nil:
			return s.reader.Failure(err)
		}
		s.markEnd()
		if err := s.Send(source.Event{Block: b}); err != nil {
			return err
		}
	}
}

// markEnd records the file's size and time in its last block. A file that has grown since is not at its end.
func (s *Stream) markEnd() {
	if s.file == nil || s.follow != nil || !s.reader.Ended() {
		return
	}
	if info, err := s.file.Stat(); err == nil && info.Size() == s.RawOffset() {
		s.reader.EndsFile(info.Size(), info.ModTime().UnixNano())
	}
}

// Close ends reading and frees the stream's resources. It does not close Options.Stdin; a read that hangs there is
// abandoned. It must not run together with Next.
func (s *Stream) Close() error {
	if s.End() && s.in != nil {
		s.reader.Forget()
	}
	if s.follow != nil {
		return s.follow.close()
	}
	if c, ok := s.in.(io.Closer); ok && s.Name != source.StdinName {
		return c.Close()
	}
	s.deadline(time.Time{})
	return nil
}

// interrupt unblocks a hanging read, and reports whether it can.
func (s *Stream) interrupt() bool {
	return !s.waits || s.file != nil || s.deadline(time.Now()) || !s.reader.Raw.Hangs()
}

// deadline sets the read deadline, and reports whether the stream supports one.
func (s *Stream) deadline(t time.Time) bool {
	d, ok := s.in.(interface{ SetReadDeadline(time.Time) error })
	return ok && d.SetReadDeadline(t) == nil
}

// openWaiting opens a FIFO or device. Opening a FIFO blocks until it has a writer. If ctx ends first, the blocked open
// is abandoned.
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
