package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/weirsync/weir/internal/quantity"
	"github.com/weirsync/weir/internal/settings"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/status"
)

// A textHandler writes messages for people: the sentence alone, which names what the fields do.
type textHandler struct {
	w      io.Writer
	prefix string // of each line
	level  slog.Leveler
}

func (h *textHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= h.level.Level()
}

func (h *textHandler) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h *textHandler) WithGroup(string) slog.Handler      { return h }

// Handle writes a message. Each of its lines is a fault of its own, or a statement that
// belongs to the one before it.
func (h *textHandler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	text := r.Message
	if r.Level == slog.LevelWarn {
		text = "warning: " + text
	}
	for line := range strings.SplitSeq(printable(text), "\n") {
		if !strings.HasPrefix(line, " ") {
			line = h.prefix + line
		}
		fmt.Fprintln(&b, line)
	}
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == hintField {
			fmt.Fprintln(&b, a.Value)
		}
		return true
	})
	_, err := io.WriteString(h.w, b.String())
	return err
}

// hintField is the field of an error with the way out.
const hintField = "hint"

// plainField is the field with the message of a JSON log: a sentence without the numbers, which are fields there.
const plainField = "plain"

// A jsonHandler writes messages for programs.
type jsonHandler struct{ slog.Handler }

func (h jsonHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return jsonHandler{h.Handler.WithAttrs(attrs)}
}

func (h jsonHandler) Handle(ctx context.Context, r slog.Record) error {
	plain := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == plainField {
			plain.Message = a.Value.String()
		} else {
			plain.AddAttrs(a)
		}
		return true
	})
	return h.Handler.Handle(ctx, plain)
}

func newJSONHandler(w io.Writer, level slog.Leveler) slog.Handler {
	return jsonHandler{slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Value.Kind() == slog.KindString {
			a.Value = slog.StringValue(printable(a.Value.String()))
		}
		return a
	}})}
}

// Level is the least level of what is logged, where no other is asked for.
func (e *env) Level() slog.Level {
	switch {
	case e.verbose:
		return slog.LevelDebug
	case e.quiet:
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

// logAs has messages written as a run's options say.
func (e *env) logAs(o *settings.Output) {
	if o.LogFormat == settings.JSON {
		e.log = slog.New(newJSONHandler(e.line, e))
	} else {
		e.log = slog.New(&textHandler{w: e.line, prefix: logPrefix, level: e})
	}
}

const logPrefix = "weir: "

const (
	outageEvery = time.Minute      // how often an outage is logged
	shortOutage = 10 * time.Second // shorter waits for other sessions are not logged
)

// An outageLog logs an outage of the database when it begins, once a minute, and when it ends.
type outageLog struct {
	log *slog.Logger
	p   *status.Progress
	to  string // the database, without a password

	mu     sync.Mutex
	last   status.Stall // the outage that was logged; zero if it has ended
	logged time.Time    // when an outage was last logged
}

// note logs the outage if it is due.
func (l *outageLog) note() {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.p.Snapshot()
	st := s.Unavailable()
	switch {
	case st.Err == nil && l.last.Err == nil:
	case st.Err == nil:
		lasted := time.Since(l.last.Since)
		text := l.to + " can be written again"
		if l.last.Err.Reason == "connection" {
			text = "connected to " + l.to + " again"
		}
		l.log.Info(text+" after "+quantity.Duration(lasted), plainField, text, "reason", string(l.last.Cause), "seconds", int64(lasted.Seconds()))
		l.last = st
	case time.Since(l.logged) < outageEvery:
	case st.Err.Unavailable() || time.Since(st.Since) >= shortOutage:
		l.logged, l.last = time.Now(), st
		l.log.Warn(st.String()+": "+st.Err.Error(), plainField, st.Text+": "+st.Err.Error(), "reason", string(st.Cause), "seconds", int64(time.Since(st.Since).Seconds()))
	}
}

// retried counts and logs a failure before its retry; nil if the database answers again.
func (l *outageLog) retried(e *sink.Error) {
	l.p.Retry(e)
	if e != nil {
		l.log.Debug(fmt.Sprintf("%v; retrying", e), "attempt", e.Attempt)
	}
	l.note()
}
