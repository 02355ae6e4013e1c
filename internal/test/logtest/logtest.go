// Package logtest has loggers for tests.
package logtest

import (
	"context"
	"log/slog"
	"testing"
)

// New returns a logger that writes to the log of a test.
func New(t testing.TB) *slog.Logger { return To(func(text string) { t.Log(text) }) }

// To returns a logger that calls f for each message of any level.
func To(f func(text string)) *slog.Logger { return slog.New(handler(f)) }

type handler func(text string)

func (h handler) Enabled(context.Context, slog.Level) bool { return true }
func (h handler) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h handler) WithGroup(string) slog.Handler            { return h }

func (h handler) Handle(_ context.Context, r slog.Record) error {
	h(r.Message)
	return nil
}
