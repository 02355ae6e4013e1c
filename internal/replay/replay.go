// Package replay is the sending end of a feed. It sends captured lines at their recorded pace, faster, or at a fixed
// rate, to any number of clients, each from its own resume value. For tests it misbehaves on request.
package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"strconv"
	"time"

	"golang.org/x/time/rate"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/source/file"
)

// Config says what to send, and how.
type Config struct {
	Files []string // as file.Open accepts them; sent in this order

	// TimeField is the field with a line's time, in seconds since 1970 or RFC 3339. If it is set, lines are sent at
	// their recorded intervals divided by Speed.
	TimeField string
	Speed     float64 // 1: as recorded; +Inf: as fast as possible
	Rate      float64 // lines per second, instead of the recorded pace; 0: recorded pace
	Loop      bool    // start again at the end, at the recorded pace a second later

	// Stamp sets each line's TimeField to the time when it is sent.
	Stamp bool

	// ResumeField is compared with a client's resume value. Lines before the first value that is not less are skipped.
	ResumeField string

	DropAfter time.Duration // close each connection then, in the middle of a line; 0: never

	Log *slog.Logger // warnings, and of a [Server] its clients
}

// maxTime is the largest time of a line, the end of the year 9999. Larger numbers are not seconds since 1970.
const maxTime = 253402300800

// errDropped ends a connection for DropAfter.
var errDropped = errors.New("dropped on purpose")

// A player sends lines to one client.
type player struct {
	Config
	out    flusher
	scan   *feed.Scanner
	resume string // skip lines before this value

	limit  *rate.Limiter // lines per second, if Rate is set
	start  time.Time     // when the first line was sent
	first  float64       // time of the first line of this loop, in seconds
	begun  time.Time     // when that was sent
	prev   float64       // time of the last line sent
	gap    time.Duration // before the first line of this loop
	timed  bool          // a line had a time
	warned map[string]bool
	lines  int64  // lines sent
	last   string // resume value sent last
	buf    []byte
}

// A flusher receives lines. Flush sends what was written.
type flusher interface {
	io.Writer
	Flush() error
}

// catchUp is the part of a second whose lines are sent in one burst when a client that blocked reads again.
const catchUp = 0.05

// Play sends the lines to out, from a resume value on; "" starts at the first line. It returns nil at the end of the
// files.
func Play(ctx context.Context, c Config, out flusher, resume string) error {
	p := &player{Config: c, out: out, scan: feed.NewScanner(&feed.Names{}), resume: resume, first: math.NaN(), prev: math.NaN(), warned: map[string]bool{}}
	if c.Rate > 0 {
		p.limit = rate.NewLimiter(rate.Limit(c.Rate), int(min(max(1, c.Rate*catchUp), math.MaxInt32)))
	}
	for {
		for _, file := range c.Files {
			if err := p.file(ctx, file); err != nil {
				return err
			}
		}
		switch {
		case c.TimeField != "" && !p.timed && p.lines > 0:
			return errors.Join(fmt.Errorf("no line has a time in the field %q (--time-field): they were sent without waiting", c.TimeField), out.Flush())
		case !c.Loop:
			return out.Flush()
		case p.lines == 0:
			return errors.New("the files have no lines to send in a loop")
		}
		p.first, p.prev, p.gap = math.NaN(), math.NaN(), time.Second
	}
}

// file sends the lines of a file.
func (p *player) file(ctx context.Context, path string) (err error) {
	s, err := file.Open(ctx, path, source.Options{}, file.Options{}, "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	for {
		b, err := s.Next(ctx)
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		for data := b.Data; len(data) > 0 && b.Oversize == 0; {
			var line []byte
			line, data, _ = bytes.Cut(data, []byte{'\n'})
			if err := p.line(ctx, line); err != nil {
				return err
			}
		}
		b.Release()
	}
}

// line sends one line when it is due.
func (p *player) line(ctx context.Context, line []byte) error {
	fields, err := p.scan.Scan(line)
	if err != nil {
		fields = nil // send it unchanged
	}
	resume := p.last
	at, timeField, timeText := math.NaN(), -1, "" // the field with the time
	for i := range fields {
		f := &fields[i]
		name := p.scan.Name(f)
		if name != p.TimeField && name != p.ResumeField {
			continue
		}
		text := string(feed.AppendText(nil, f.Value, f.Kind))
		if t := feed.Seconds(text); name == p.TimeField && math.Abs(t) > maxTime {
			p.warn("sent at once: the field %q is %s, which are not seconds since 1970", name, text)
		} else if name == p.TimeField && !math.IsNaN(t) {
			p.timed = true
			at, timeField, timeText = t, i, text
		}
		if name == p.ResumeField {
			if p.resume != "" && feed.Older([]byte(text), []byte(p.resume)) {
				return nil
			}
			resume = text
		}
	}
	if p.resume != "" && resume == "" {
		return nil // before the first line that has a value
	}
	p.resume = ""
	if err := p.pace(ctx, at, line); err != nil {
		return err
	}
	p.lines++
	if p.buf = p.buf[:0]; timeField >= 0 && p.Stamp {
		p.buf = withTime(p.buf, line, timeField, stamp(timeText, float64(time.Now().UnixNano())/1e9))
	} else {
		p.buf = append(p.buf, line...)
	}
	_, err = p.out.Write(append(p.buf, '\n'))
	p.last = resume
	return err
}

// stamp formats a time like the previous text.
func stamp(like string, at float64) string {
	if _, err := strconv.ParseInt(like, 10, 64); err == nil {
		return strconv.FormatInt(int64(at), 10)
	}
	if _, err := strconv.ParseFloat(like, 64); err == nil {
		return strconv.FormatFloat(at, 'f', -1, 64)
	}
	return time.Unix(0, int64(at*1e9)).UTC().Format(time.RFC3339Nano)
}

// withTime appends a line, with text instead of the time in the member at an index.
func withTime(dst, line []byte, member int, text string) []byte {
	w := feed.Walk(line)
	w.Next()
	for w.Next() && member > 0 {
		w.Raw()
		member--
	}
	if w.Kind == feed.String {
		text = `"` + text + `"`
	}
	dst = append(append(dst, line[:w.Offset()]...), text...)
	return append(dst, line[w.Offset()+len(w.Raw()):]...)
}

// pace waits until a line of the given time is due, or drops the connection.
func (p *player) pace(ctx context.Context, at float64, line []byte) error {
	if p.start.IsZero() {
		p.start = time.Now() // finding the first line may take longer than a connection may live
	}
	due := p.start
	switch {
	case p.limit != nil:
		now := time.Now()
		due = now.Add(p.limit.ReserveN(now, 1).DelayFrom(now))
	case p.TimeField != "" && !math.IsNaN(at) && !math.IsInf(p.Speed, 1):
		if math.IsNaN(p.first) {
			p.first, p.begun = at, time.Now().Add(p.gap)
		}
		if at < p.prev {
			p.warn("sent at once: a line whose field %q is before that of the line before it, by %v s", p.TimeField, p.prev-at)
		}
		p.prev = at
		due = p.begun.Add(time.Duration(min((at-p.first)/p.Speed*float64(time.Second), math.MaxInt64/2)))
	}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		now := time.Now()
		if p.DropAfter > 0 && now.Sub(p.start) >= p.DropAfter {
			_, err := p.out.Write(line[:len(line)/2])
			return errors.Join(errDropped, err, p.out.Flush())
		}
		wait := due.Sub(now)
		if wait <= 0 {
			return nil
		}
		if err := p.out.Flush(); err != nil {
			return err
		}
		if p.DropAfter > 0 {
			wait = min(wait, max(0, p.DropAfter-now.Sub(p.start)))
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// warn warns of the first line of a kind.
func (p *player) warn(format string, args ...any) {
	if !p.warned[format] {
		p.warned[format] = true
		p.Log.Warn(fmt.Sprintf(format, args...))
	}
}
