package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/weirsync/weir/internal/settings"
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

// Handle writes a message. Each of its lines gets the prefix, unless it begins with a space and belongs to the line
// before it.
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

// newJSONHandler returns a handler that writes messages for programs.
func newJSONHandler(w io.Writer, level slog.Leveler) slog.Handler {
	return slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Value.Kind() == slog.KindString {
			a.Value = slog.StringValue(printable(a.Value.String()))
		}
		return a
	}})
}

// Level implements [slog.Leveler]: the lowest level that is logged.
func (e *env) Level() slog.Level {
	switch {
	case e.verbose:
		return slog.LevelDebug
	case e.quiet:
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

// logAs writes messages in the format of a run's options.
func (e *env) logAs(o *settings.Output) {
	if o.LogFormat == settings.JSON {
		e.log = slog.New(newJSONHandler(e.line, e))
	} else {
		e.log = slog.New(&textHandler{w: e.line, prefix: logPrefix, level: e})
	}
}

const logPrefix = "weir: "
