// Package source says what the source of a feed is: it brings blocks of whole lines, lane by lane,
// with cursors to resume from. It does not look into the lines. The kinds of sources are in its
// folders.
package source

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"time"
)

const (
	// DefaultMaxLine is the longest line in bytes unless Options say otherwise.
	DefaultMaxLine = 16 << 20
	// LimitMaxLine is the highest Options.MaxLine. Consumers keep offsets
	// within a line in 28 bits.
	LimitMaxLine = 1<<28 - 1
)

// The values of Options.Compression.
const (
	Auto = "auto" // detected by the first bytes, never by the name
	None = "none"
	Gzip = "gzip"
	Zstd = "zstd"
	// Auto does not detect these.
	Zlib    = "zlib"
	Deflate = "deflate" // raw
)

// Options are those that all kinds of sources have; a kind has others of its own. The zero value is ready to
// use.
type Options struct {
	MaxLine     int           // bytes of a line without its newline, 1 to LimitMaxLine; 0: DefaultMaxLine
	Follow      bool          // wait for more at the end of a plain file; streams wait anyway
	Compression string        // Auto, None, Gzip, Zstd, Zlib or Deflate; "": Auto
	RetryFor    time.Duration // how long weir tries to reconnect; 0: not at all
	// TLS is called for each connection, because certificates may be replaced during a run. Any goroutine may call it.
	// nil: the system's authorities, TLS 1.2 at least.
	TLS func() (*tls.Config, error)

	// What follows is the run's.

	// Hello returns what is sent when a connection is made, to resume after a value; nil: nothing. If Resumes, the
	// feed is asked for what is not committed.
	Hello   func(resume string) ([]byte, error)
	Resumes bool
	// Whole reports whether the last line of a connection, which has no newline, is a message: it
	// counts then, if the connection was closed cleanly. nil: none is. It may be called from many
	// goroutines.
	Whole func(line []byte) bool
	// Ends are where the lanes of a [Catalog] ended when the run began: others have appeared since. nil: it begins.
	Ends     map[string]int64
	Nameless bool         // a [Member] joins without its name, which another member has
	Buffer   int64        // bytes of memory for the batches, of which a source may take a share; 0: not limited
	Pool     *Pool        // of memory, which other streams may share; nil: the stream has its own
	Observer Observer     // nil: nobody
	Log      *slog.Logger // nil: none
}

// An Observer learns what happens to connections. Its methods may be called by any goroutine.
type Observer interface {
	Reconnect()                        // weir begins to reconnect
	SetConnections(lane string, n int) // a lane has n connections now
	SenderFailed()                     // a sender was disconnected because of an error
	FetchFailed()                      // a request for lines failed
	Rebalanced()                       // a group has assigned lanes, or taken some away
	// Grouped: the run has joined its group, or waits to join. lanes is how many the group divides.
	Grouped(joined bool, lanes int)
}

// Unobserved is an Observer that ignores what happens.
type Unobserved struct{}

// Reconnect implements [Observer].
func (Unobserved) Reconnect() {}

// SetConnections implements [Observer].
func (Unobserved) SetConnections(string, int) {}

// SenderFailed implements [Observer].
func (Unobserved) SenderFailed() {}

// FetchFailed implements [Observer].
func (Unobserved) FetchFailed() {}

// Rebalanced implements [Observer].
func (Unobserved) Rebalanced() {}

// Grouped implements [Observer].
func (Unobserved) Grouped(bool, int) {}

// WithDefaults fills in what is open, and checks the rest.
func (o Options) WithDefaults() (Options, error) {
	if o.MaxLine == 0 {
		o.MaxLine = DefaultMaxLine
	}
	if o.MaxLine < 1 || o.MaxLine > LimitMaxLine {
		return o, fmt.Errorf("max line: %d is not between 1 and %d bytes", o.MaxLine, LimitMaxLine)
	}
	switch o.Compression {
	case "":
		o.Compression = Auto
	case Auto, None, Gzip, Zstd, Zlib, Deflate:
	default:
		return o, fmt.Errorf("compression: %q is not one of auto, none, gzip, zstd, zlib, deflate", o.Compression)
	}
	if o.Pool == nil {
		o.Pool = NewPool()
	}
	if o.TLS == nil {
		o.TLS = func() (*tls.Config, error) { return &tls.Config{MinVersion: tls.VersionTLS12}, nil }
	}
	if o.Observer == nil {
		o.Observer = Unobserved{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o, nil
}
