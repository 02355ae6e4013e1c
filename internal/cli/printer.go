package cli

import (
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
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
	p      *status.Progress
	line   *statusLine
	before counts // when the last status was shown
	// stopped returns the signal that ended the run, or nil.
	stopped func() os.Signal

	stop chan struct{}
	done chan struct{}
	once sync.Once
}

type counts struct {
	at    time.Time
	lines int64
	feed  time.Time // timestamp of the last message
}

const (
	lineEvery = 500 * time.Millisecond // on a terminal
	logEvery  = 10 * time.Second       // elsewhere, in the first minute
	logLater  = time.Minute            // after the first minute
)

func newPrinter(e *env, o *settings.Output, p *status.Progress) *printer {
	out := &printer{p: p, line: e.line, stopped: e.stopped, stop: make(chan struct{}), done: make(chan struct{}), before: counts{at: time.Now()}}
	dumb := os.Getenv("TERM") == "dumb" || os.Getenv("NO_COLOR") != "" && os.Getenv("TERM") == ""
	switch {
	case o.Quiet:
		close(out.done)
	case o.LogFormat != settings.JSON && !dumb && e.stderr == os.Stderr && e.terminal(int(os.Stderr.Fd())):
		e.line.width = e.width
		go out.tick(lineEvery, func() { out.line.show(out.status()) })
	default:
		var logged time.Time
		go out.tick(logEvery, func() {
			if time.Since(p.Snapshot().Start) > logLater+logEvery/2 && time.Since(logged) < logLater-logEvery/2 {
				return
			}
			logged = time.Now()
			s := out.status()
			e.log.Info(s.String(), append(s.fields(), plainField, "progress")...)
		})
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

// close ends the status line. It may be called twice.
func (o *printer) close() {
	o.once.Do(func() { close(o.stop) })
	<-o.done
	o.line.mu.Lock()
	defer o.line.mu.Unlock()
	o.line.clear()
}

// status describes the progress since the last call.
func (o *printer) status() statusParts {
	s := o.p.Snapshot()
	now, before, t := counts{time.Now(), s.Lines, s.FeedTime}, o.before, s.Total()
	elapsed := now.at.Sub(before.at)
	rate := float64(now.lines-before.lines) / elapsed.Seconds()
	o.before = now
	var is statusParts
	is.add(1, quantity.Count(now.lines, "line"), "lines", now.lines)
	is.add(5, quantity.Grouped(int64(rate))+"/s", "lines_per_second", int64(rate))
	is.add(8, quantity.Count(t.Total(), "row"), "rows", t.Total())
	if t.Messages > 0 {
		is.add(10, fmt.Sprintf("%.0f %% folded", 100*float64(t.Coalesced)/float64(t.Messages)), "coalesced_messages", t.Coalesced)
	}
	if s.Rejected > 0 {
		is.add(3, quantity.Grouped(s.Rejected)+" rejected", "rejected", s.Rejected)
	}
	if what := waitsFor(&s); what != "" {
		is.add(0, what, "waits_for", what)
	}
	if what := partitions(&s); what != "" {
		is.add(6, what, "partitions", s.OpenPartitions(), "group_partitions", s.Group.Partitions)
	}
	if what := writing(&s); what != "" {
		is.add(2, what, "flush_rows", s.Writing.Rows, "flush_sent_rows", s.Writing.Sent)
	}
	if o.stopped() != nil {
		is.add(0, "stopping (Ctrl-C: at once)")
	}
	if s.Spool > 1e6 {
		is.add(7, "spool "+quantity.BinaryBytes(s.Spool), "spool_bytes", s.Spool)
	}
	lag := status.Lag(s.FeedTime)
	records, ofKafka := s.LagRecords()
	switch {
	case ofKafka: // an old record may be the topic's last
		is.add(4, "lag "+quantity.Count(records, "record"), "lag_records", records)
	case lag != 0:
		is.add(4, "lag "+quantity.Duration(lag), "lag_seconds", lag.Seconds())
	}
	if lag > time.Second && (!ofKafka || records > 0) && !before.feed.IsZero() && now.feed.After(before.feed) {
		switch speed := float64(now.feed.Sub(before.feed)) / float64(elapsed); { // seconds of the feed in a second
		case speed >= 1.05:
			is.add(9, fmt.Sprintf("catching up at %.1fx", speed))
		case speed < 0.95:
			is.add(9, fmt.Sprintf("falling behind at %.1fx", speed))
		}
	}
	if s.LastFlush > 0 {
		is.add(11, "flush "+quantity.Duration(s.LastFlush), "last_flush_seconds", s.LastFlush.Seconds())
	}
	is.addFiles(&s.Files, now.at.Sub(s.Start))
	return is
}

// addFiles adds the progress with files.
func (s *statusParts) addFiles(f *status.Files, elapsed time.Duration) {
	if f.Number > 1 {
		s.add(6, fmt.Sprintf("file %s of %s", quantity.Grouped(int64(min(f.Ended+1, f.Number))), quantity.Grouped(int64(f.Number))), "files_ended", f.Ended, "files", f.Number)
	}
	if f.Size == 0 || f.Offset == 0 {
		return
	}
	s.add(2, fmt.Sprintf("%.0f %%", min(100, 100*float64(f.Offset)/float64(f.Size))), "offset_bytes", f.Offset, "size_bytes", f.Size)
	if f.Offset <= f.Before {
		return
	}
	if left := time.Duration(float64(elapsed) * float64(f.Size-f.Offset) / float64(f.Offset-f.Before)); left >= time.Second {
		s.add(6, "ETA "+quantity.Duration(left.Round(time.Second)), "seconds_left", int64(left.Seconds()))
	}
}

// waitsFor returns what a run waits for, as /readyz does, or "".
func waitsFor(s *status.Snapshot) string {
	if why := s.NotReady(); why != "" {
		return why
	}
	for _, l := range s.Lanes {
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
	if s.Group.Partitions == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %s", s.OpenPartitions(), quantity.Count(int64(s.Group.Partitions), "partition"))
}

// writing returns the progress of the current flush; "" if there is none, or it has just begun.
func writing(s *status.Snapshot) string {
	switch {
	case s.Writing.Began.IsZero() || time.Since(s.Writing.Began) < status.LongFlush:
		return ""
	case s.Writing.Search() != "":
		return s.Writing.Search()
	case s.Writing.Sent == s.Writing.Rows:
		return "writing " + quantity.Count(int64(s.Writing.Rows), "row") + ", all sent"
	}
	return fmt.Sprintf("writing %s, %s sent", quantity.Count(int64(s.Writing.Rows), "row"), quantity.Grouped(int64(s.Writing.Sent)))
}

// statusParts are a status line in parts.
type statusParts []statusPart

type statusPart struct {
	rank   int // if there is no room, the part with the highest rank is omitted first
	text   string
	fields []any // the part in a JSON log: names and values
}

func (s *statusParts) add(rank int, text string, fields ...any) {
	*s = append(*s, statusPart{rank, text, fields})
}

// fields returns the fields of all parts.
func (s statusParts) fields() (all []any) {
	for i := range s {
		all = append(all, s[i].fields...)
	}
	return all
}

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
