package cli

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/weirsync/weir/internal/job"
	"github.com/weirsync/weir/internal/sink"
)

// A printer writes the log and the status line of a run to stderr. If that fails, as on a
// closed pipe, the run continues.
type printer struct {
	p       *job.Progress
	json    *slog.Logger // nil for text
	quiet   bool
	verbose bool

	stop chan struct{}
	done chan struct{}
	once sync.Once

	mu       sync.Mutex
	w        io.Writer
	shown    bool                 // a status line stands at the cursor
	reported map[string]time.Time // failures, by reason
	before   counts               // at the last line
}

type counts struct {
	at    time.Time
	lines int64
	feed  int64 // the feed's own time, as in Progress.FeedTime
}

const (
	lineEvery  = 500 * time.Millisecond // on a terminal
	logEvery   = 10 * time.Second       // elsewhere
	retryEvery = 10 * time.Second       // the same failure is not reported more often
)

func newPrinter(e *env, o *syncOptions, p *job.Progress) *printer {
	out := &printer{p: p, w: e.stderr, quiet: o.quiet, verbose: e.verbose, stop: make(chan struct{}), done: make(chan struct{}),
		reported: map[string]time.Time{}, before: counts{at: p.Start}}
	if o.logFormat == jsonFormat {
		out.json = slog.New(slog.NewJSONHandler(e.stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	dumb := os.Getenv("TERM") == "dumb" || os.Getenv("NO_COLOR") != "" && os.Getenv("TERM") == ""
	line := o.progress == progressAlways || o.progress == progressAuto && !o.quiet && out.json == nil && !dumb && e.stderr == os.Stderr && e.terminal(int(os.Stderr.Fd()))
	switch {
	case line:
		go out.tick(lineEvery, out.line)
	case o.progress == progressAuto && !o.quiet:
		go out.tick(logEvery, func() { out.info("%s", out.status()) })
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
	o.mu.Lock()
	defer o.mu.Unlock()
	o.clear()
}

func (o *printer) clear() {
	if o.shown {
		fmt.Fprint(o.w, "\r\x1b[K")
		o.shown = false
	}
}

func (o *printer) line() {
	s := o.status()
	o.mu.Lock()
	defer o.mu.Unlock()
	fmt.Fprint(o.w, "\r\x1b[K", s)
	o.shown = true
}

// status is one line on the progress of the run.
func (o *printer) status() string {
	now := counts{time.Now(), o.p.Lines.Load(), o.p.FeedTime.Load()}
	before := o.before
	elapsed := now.at.Sub(before.at)
	rate := float64(now.lines-before.lines) / elapsed.Seconds()
	o.before = now
	parts := []string{counted(now.lines, "line"), grouped(int64(rate)) + "/s", counted(o.p.Rows(), "row")}
	if m := o.p.Messages.Load(); m > 0 {
		parts = append(parts, fmt.Sprintf("%.0f %% folded", 100*float64(o.p.Coalesced.Load())/float64(m)))
	}
	if n := o.p.RejectedTotal(); n > 0 {
		parts = append(parts, grouped(n)+" rejected")
	}
	if e := o.p.Trouble(); e != nil {
		parts = append(parts, "waiting for the database ("+e.Reason+")")
	}
	if n := o.p.Spool.Load(); n > 1e6 {
		parts = append(parts, "spool "+bytesText(n))
	}
	if lag := o.p.Lag(); lag != 0 {
		parts = append(parts, "lag "+lag.Round(100*time.Millisecond).String())
		if lag > time.Second && before.feed != 0 && now.feed > before.feed {
			// Seconds of the feed in a second: past 1 it catches up.
			parts = append(parts, fmt.Sprintf("catching up at %.1fx", float64(now.feed-before.feed)/float64(elapsed)))
		}
	}
	if took := o.p.LastFlush.Load(); took > 0 {
		parts = append(parts, "flush "+time.Duration(took).Round(time.Millisecond).String())
	}
	if _, read, size := o.p.Source(); size > 0 && read > 0 {
		parts = append(parts, fmt.Sprintf("%.0f %%", min(100, 100*float64(read)/float64(size))))
		left := time.Duration(float64(now.at.Sub(o.p.Start)) * float64(size-read) / float64(read))
		if left >= time.Second && read < size {
			parts = append(parts, "ETA "+left.Round(time.Second).String())
		}
	}
	return strings.Join(parts, "  ")
}

func (o *printer) say(level slog.Level, prefix, format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	msg := printable(fmt.Sprintf(format, args...))
	if o.json != nil {
		o.json.Log(nil, level, msg) //nolint:staticcheck // there is no context to pass
		return
	}
	o.clear()
	fmt.Fprintf(o.w, "weir: %s%s\n", prefix, msg)
}

func (o *printer) debug(format string, args ...any) {
	if o.verbose {
		o.say(slog.LevelDebug, "", format, args...)
	}
}

func (o *printer) info(format string, args ...any) {
	if !o.quiet {
		o.say(slog.LevelInfo, "", format, args...)
	}
}

func (o *printer) warn(format string, args ...any) {
	o.say(slog.LevelWarn, "warning: ", format, args...)
}

// retry reports a failure that is retried, but not each time, and not a short lock.
func (o *printer) retry(e *sink.Error) {
	o.mu.Lock()
	last, again := o.reported[e.Reason]
	if !again {
		o.reported[e.Reason] = time.Now()
	}
	due := again && time.Since(last) > retryEvery
	if due {
		o.reported[e.Reason] = time.Now()
	}
	o.mu.Unlock()
	if due || o.verbose || e.Class == sink.Unknown || !again && e.Reason == "connection" {
		o.warn("%v; retrying", e)
	}
}

// grouped writes a number with commas between its thousands.
func grouped(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
