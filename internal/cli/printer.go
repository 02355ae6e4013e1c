package cli

import (
	"fmt"
	"io"
	"math"
	"os"
	"slices"
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
		out.onTerminal, e.line.width = true, e.width
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
		o.log.Info(o.status(s).String(), plainField, "progress", "status", s)
	}
}

// close ends the status line. It may be called twice.
func (o *printer) close() {
	o.closed.Store(true)
	o.line.mu.Lock()
	defer o.line.mu.Unlock()
	o.line.clear()
}

// status describes the progress.
func (o *printer) status(s *status.Snapshot) (is statusParts) {
	is.add(1, quantity.Count(s.Lines, "line"))
	is.add(5, quantity.Grouped(int64(s.LinesPerSecond))+"/s")
	is.add(8, quantity.Count(s.Written(), "row"))
	if s.Messages > 0 {
		is.add(10, fmt.Sprintf("%.0f %% folded", 100*float64(s.Coalesced)/float64(s.Messages)))
	}
	if s.Rejected > 0 {
		is.add(3, quantity.Grouped(s.Rejected)+" rejected")
	}
	for _, n := range s.NoteTexts() {
		if n.Short != "" {
			is.add(3, quantity.Grouped(n.Total)+" "+n.Short)
		}
	}
	waits := waitsFor(s)
	if waits != "" {
		is.add(0, waits)
	}
	if what := partitions(s); what != "" {
		is.add(6, what)
	}
	if what := writing(s); what != "" {
		is.add(2, what)
	}
	if o.stopped() != nil {
		is.add(0, "stopping (Ctrl-C: at once)")
	}
	if s.Spool > 1e6 {
		is.add(7, "spool "+quantity.BinaryBytes(s.Spool))
	}
	behind := s.LagSeconds != nil && *s.LagSeconds > 1
	switch {
	case s.Kafka != nil: // an old record may be the topic's last
		is.add(4, "lag "+quantity.Count(s.Kafka.LagRecords, "record"))
		behind = behind && s.Kafka.LagRecords > 0
	case s.LagSeconds != nil && *s.LagSeconds > 0:
		is.add(4, "lag "+quantity.Seconds(*s.LagSeconds))
	}
	if behind && waits == "" && s.FeedSpeed > 0 {
		switch {
		case s.FeedSpeed >= 1.05:
			is.add(9, fmt.Sprintf("catching up at %.1fx", s.FeedSpeed))
		case s.FeedSpeed < 0.95:
			is.add(9, fmt.Sprintf("falling behind at %.1fx", s.FeedSpeed))
		}
	}
	if f := s.LastFlush; f != nil {
		is.add(11, "flush "+quantity.Seconds(f.Seconds))
	}
	is.addFiles(&s.Files)
	return is
}

// addFiles adds the progress with files.
func (s *statusParts) addFiles(f *status.Files) {
	if f.Number > 1 {
		s.add(6, fmt.Sprintf("file %s of %s", quantity.Grouped(min(f.Ended+1, f.Number)), quantity.Grouped(f.Number)))
	}
	if f.Size == 0 || f.Offset == 0 {
		return
	}
	s.add(2, fmt.Sprintf("%.0f %%", min(100, 100*float64(f.Offset)/float64(f.Size))))
	if f.SecondsLeft >= 1 {
		s.add(6, "ETA "+quantity.Seconds(math.Round(f.SecondsLeft)))
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

// statusParts are a status line in parts.
type statusParts []statusPart

type statusPart struct {
	rank int // if there is no room, the part with the highest rank is omitted first
	text string
}

func (s *statusParts) add(rank int, text string) { *s = append(*s, statusPart{rank, text}) }

func (s statusParts) String() string {
	texts := make([]string, len(s))
	for i := range s {
		texts[i] = s[i].text
	}
	return strings.Join(texts, "  ")
}

// fit returns the status shortened to a number of columns. It is ASCII.
func (s statusParts) fit(room int) string {
	s = slices.Clone(s)
	for text := s.String(); ; text = s.String() {
		switch {
		case len(text) <= room:
			return text
		case len(s) == 1:
			return text[:max(room, 0)]
		}
		least := 0
		for i := range s {
			if s[i].rank > s[least].rank {
				least = i
			}
		}
		s = slices.Delete(s, least, least+1)
	}
}
