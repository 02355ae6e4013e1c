package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/weirsync/weir/internal/progress"
	"github.com/weirsync/weir/internal/quantity"
)

// A statusLine is stderr, where a line may stand that changes: it makes way for what is written.
// If writing fails, as on a closed pipe, the run continues.
type statusLine struct {
	mu    sync.Mutex
	w     io.Writer
	shown bool
}

// Write writes whole lines.
func (l *statusLine) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clear()
	return l.w.Write(p)
}

func (l *statusLine) show(s string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprint(l.w, "\r\x1b[K", s)
	l.shown = true
}

// clear removes the line. l is locked.
func (l *statusLine) clear() {
	if l.shown {
		fmt.Fprint(l.w, "\r\x1b[K")
		l.shown = false
	}
}

// A printer shows the progress of a run, until it is closed.
type printer struct {
	p      *progress.Progress
	line   *statusLine
	before counts // at the last time

	stop chan struct{}
	done chan struct{}
	once sync.Once
}

type counts struct {
	at    time.Time
	lines int64
	feed  time.Time // the feed's own time
}

const (
	lineEvery = 500 * time.Millisecond // on a terminal
	logEvery  = 10 * time.Second       // elsewhere
)

func newPrinter(e *env, o *syncOptions, p *progress.Progress) *printer {
	out := &printer{p: p, line: e.line, stop: make(chan struct{}), done: make(chan struct{}), before: counts{at: time.Now()}}
	dumb := os.Getenv("TERM") == "dumb" || os.Getenv("NO_COLOR") != "" && os.Getenv("TERM") == ""
	line := o.progress == progressAlways || o.progress == progressAuto && !o.quiet && o.logFormat != jsonFormat && !dumb && e.stderr == os.Stderr && e.terminal(int(os.Stderr.Fd()))
	switch {
	case line:
		go out.tick(lineEvery, func() { out.line.show(out.status()) })
	case o.progress == progressAuto && !o.quiet:
		go out.tick(logEvery, func() { e.log.Info(out.status()) })
	default:
		close(out.done)
	}
	return out
}

func (o *printer) tick(every time.Duration, show func()) {
	defer close(o.done)
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			show()
		case <-o.stop:
			return
		}
	}
}

// close ends the status line. It is safe to call it twice.
func (o *printer) close() {
	o.once.Do(func() { close(o.stop) })
	<-o.done
	o.line.mu.Lock()
	defer o.line.mu.Unlock()
	o.line.clear()
}

// status is one line on the progress of the run.
func (o *printer) status() string {
	s := o.p.Snapshot()
	now, before, t := counts{time.Now(), s.Lines, s.FeedTime}, o.before, s.Total()
	elapsed := now.at.Sub(before.at)
	rate := float64(now.lines-before.lines) / elapsed.Seconds()
	o.before = now
	parts := []string{quantity.Count(now.lines, "line"), quantity.Grouped(int64(rate)) + "/s", quantity.Count(t.Total(), "row")}
	if t.Messages > 0 {
		parts = append(parts, fmt.Sprintf("%.0f %% folded", 100*float64(t.Coalesced)/float64(t.Messages)))
	}
	if s.Rejected > 0 {
		parts = append(parts, quantity.Grouped(s.Rejected)+" rejected")
	}
	if s.Trouble != "" {
		parts = append(parts, "waiting for the database ("+s.Trouble+")")
	}
	if s.Spool > 1e6 {
		parts = append(parts, "spool "+quantity.Bytes(s.Spool))
	}
	if lag := progress.Lag(s.FeedTime); lag != 0 {
		parts = append(parts, "lag "+lag.Round(100*time.Millisecond).String())
		if lag > time.Second && !before.feed.IsZero() && now.feed.After(before.feed) {
			// Seconds of the feed in a second: past 1 it catches up.
			parts = append(parts, fmt.Sprintf("catching up at %.1fx", float64(now.feed.Sub(before.feed))/float64(elapsed)))
		}
	}
	if s.LastFlush > 0 {
		parts = append(parts, "flush "+s.LastFlush.Round(time.Millisecond).String())
	}
	if n := len(s.Lanes); n > 0 && s.Lanes[n-1].Size > 0 && s.Lanes[n-1].Offset > 0 {
		read, size := s.Lanes[n-1].Offset, s.Lanes[n-1].Size
		parts = append(parts, fmt.Sprintf("%.0f %%", min(100, 100*float64(read)/float64(size))))
		left := time.Duration(float64(now.at.Sub(s.Start)) * float64(size-read) / float64(read))
		if left >= time.Second && read < size {
			parts = append(parts, "ETA "+left.Round(time.Second).String())
		}
	}
	return strings.Join(parts, "  ")
}
