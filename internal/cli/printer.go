package cli

import (
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirsync/weir/internal/quantity"
	"github.com/weirsync/weir/internal/settings"
	"github.com/weirsync/weir/internal/status"
)

// A statusLine writes to stderr and keeps a status in the last line of a terminal. If writing fails, for example on a
// closed pipe, the run continues.
type statusLine struct {
	mu    sync.Mutex
	w     io.Writer
	shown bool
	width func() int // columns of the terminal; nil: no limit
}

// Write writes whole lines above the status.
func (l *statusLine) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clear()
	return l.w.Write(p)
}

// show replaces the status, shortened to the width of the terminal.
func (l *statusLine) show(s statusParts) {
	l.mu.Lock()
	defer l.mu.Unlock()
	room := math.MaxInt
	if l.width != nil {
		room = l.width() - 1 // some terminals wrap after the last column
	}
	fmt.Fprint(l.w, "\r\x1b[K", s.fit(room))
	l.shown = true
}

// clear removes the status. l must be locked.
func (l *statusLine) clear() {
	if l.shown {
		fmt.Fprint(l.w, "\r\x1b[K")
		l.shown = false
	}
}

// A printer shows the progress of a run until it is closed.
type printer struct {
	*env
	onTerminal bool // else in the log
	printed    time.Time
	closed     atomic.Bool
}

const (
	logEvery = 10 * time.Second // outside a terminal, in the first minute
	logLater = time.Minute      // after the first minute
)

func newPrinter(e *env, o *settings.Output) *printer {
	out := &printer{env: e, printed: time.Now()}
	out.closed.Store(o.Quiet)
	dumb := os.Getenv("TERM") == "dumb" || os.Getenv("NO_COLOR") != "" && os.Getenv("TERM") == ""
	if !o.Quiet && o.LogFormat != settings.JSON && !dumb && e.stderr == os.Stderr && e.terminal(int(os.Stderr.Fd())) {
		out.onTerminal, e.line.width = true, func() int { return e.width(os.Stderr) }
	}
	return out
}

// print shows a snapshot if it is due.
func (o *printer) print(s *status.Snapshot) {
	every := logEvery
	if s.Time.Sub(s.Started) > logLater {
		every = logLater
	}
	switch {
	case o.closed.Load():
	case o.onTerminal:
		o.line.show(o.status(s))
	case time.Since(o.printed) > every-status.Tick/2:
		o.printed = time.Now()
		o.log.Info(o.status(s).String(), "status", s)
	}
}

// close ends the status line. It may be called twice.
func (o *printer) close() {
	o.closed.Store(true)
	o.line.mu.Lock()
	defer o.line.mu.Unlock()
	o.line.clear()
}

func (o *printer) status(s *status.Snapshot) (is statusParts) {
	is.add(waitsFor(s))
	if o.stopped() != nil {
		is.add("stopping (Ctrl-C: at once)")
	}
	is.add(quantity.Count(s.Lines, "line"), quantity.Grouped(int64(s.LinesPerSecond))+"/s")
	is.addFiles(&s.Files)
	is.add(writing(s), partitions(s))
	if s.Rejected > 0 {
		is.add(quantity.Grouped(s.Rejected) + " rejected")
	}
	for _, n := range s.NoteTexts() {
		if n.Short != "" {
			is.add(quantity.Grouped(n.Total) + " " + n.Short)
		}
	}
	switch {
	case s.Kafka != nil: // an old record may be the topic's last
		is.add("lag " + quantity.Count(s.Kafka.LagRecords, "record"))
	case s.LagSeconds != nil && *s.LagSeconds > 0:
		is.add("lag " + quantity.Seconds(*s.LagSeconds))
	}
	if s.Spool > 1e6 {
		is.add("spool " + quantity.Bytes(s.Spool))
	}
	is.add(quantity.Count(s.Written(), "row"))
	if s.Messages > 0 {
		is.add(fmt.Sprintf("%.0f %% folded", 100*float64(s.Coalesced)/float64(s.Messages)))
	}
	if f := s.LastFlush; f != nil {
		is.add("flush " + quantity.Seconds(f.Seconds))
	}
	return is
}

func (s *statusParts) addFiles(f *status.Files) {
	if f.Number > 1 {
		s.add(fmt.Sprintf("file %s of %s", quantity.Grouped(min(f.Ended+1, f.Number)), quantity.Grouped(f.Number)))
	}
	if f.Size == 0 || f.Offset == 0 {
		return
	}
	s.add(fmt.Sprintf("%.0f %%", min(100, 100*float64(f.Offset)/float64(f.Size))))
	if f.SecondsLeft >= 1 {
		s.add("ETA " + quantity.Seconds(math.Round(f.SecondsLeft)))
	}
}

// waitsFor returns what a run waits for, as /readyz does, or "".
func waitsFor(s *status.Snapshot) string {
	if s.NotReady != "" {
		return s.NotReady
	}
	for i := range s.Lanes {
		l := &s.Lanes[i]
		switch {
		case !l.Open || l.Kind == status.File:
		case l.Kind == status.Listening && l.Connections == 0:
			return "waiting for senders"
		case s.Lines == 0:
			return "waiting for lines"
		}
	}
	return ""
}

// partitions returns how many partitions a group member reads, or "".
func partitions(s *status.Snapshot) string {
	if s.Kafka == nil || s.Kafka.GroupPartitions == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %s", s.Kafka.Partitions, quantity.Count(s.Kafka.GroupPartitions, "partition"))
}

// writing returns the progress of the current flush; "" if there is none, or it has just begun.
func writing(s *status.Snapshot) string {
	w := s.LongWriting()
	switch {
	case w == nil:
		return ""
	case w.Search != "":
		return w.Search
	case w.Sent == w.Rows:
		return "writing " + quantity.Count(w.Rows, "row") + ", all sent"
	}
	return fmt.Sprintf("writing %s, %s sent", quantity.Count(w.Rows, "row"), quantity.Grouped(w.Sent))
}

// statusParts are the parts of a status line, the most important first.
type statusParts []string

// add appends the texts that are not empty.
func (s *statusParts) add(texts ...string) {
	for _, text := range texts {
		if text != "" {
			*s = append(*s, text)
		}
	}
}

func (s statusParts) String() string { return strings.Join(s, "  ") }

// fit returns the parts that fit into a number of columns. They are ASCII.
func (s statusParts) fit(room int) string {
	for len(s) > 1 && len(s.String()) > room {
		s = s[:len(s)-1]
	}
	text := s.String()
	return text[:min(len(text), max(room, 0))]
}
