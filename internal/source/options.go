// Package source defines the source of a feed: it delivers blocks of whole lines, lane by lane, with cursors to resume
// from. It does not parse the lines. The kinds of sources are in subfolders.
package source

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"time"
)

const (
	// DefaultMaxLine is the default limit on a line's length, in bytes.
	DefaultMaxLine = 16 << 20
	// LimitMaxLine is the highest Options.MaxLine. Consumers store offsets within a line in 28 bits.
	LimitMaxLine = 1<<28 - 1
)

// The values of Options.Compression.
const (
	Auto = "auto" // detected from the first bytes, never from the name
	None = "none"
	Gzip = "gzip"
	Zstd = "zstd"
	// Auto does not detect these.
	Zlib    = "zlib"
	Deflate = "deflate" // without a header
)

// Options are the settings common to all kinds of sources; each kind adds its own. The zero value is ready to use.
type Options struct {
	MaxLine     int           // bytes of a line without its newline, 1 to LimitMaxLine; 0: DefaultMaxLine
	Follow      bool          // wait for more at the end of a plain file; streams always wait
	Compression string        // Auto, None, Gzip, Zstd, Zlib or Deflate; "": Auto
	RetryFor    time.Duration // how long to try to reconnect; 0: do not
	// TLS is called for each connection, because certificates may be replaced during a run. Any goroutine may call it.
	// nil: the system's authorities, at least TLS 1.2.
	TLS func() (*tls.Config, error)

	// Set by the run:

	// Hello returns what to send on a new connection to resume after a value; nil: nothing. Resumes is set if
	// it asks the feed to resume after the last committed value.
	Hello   func(resume string) ([]byte, error)
	Resumes bool
	// Whole reports whether the last line of a connection, which has no newline, is a message. It then counts, if the
	// connection was closed cleanly. nil: it never counts. Many goroutines may call it.
	Whole func(line []byte) bool
	// Ends are the end offsets that the lanes of a [Catalog] had when the run began; other lanes have appeared since.
	// nil: the run is beginning.
	Ends     map[string]int64
	Nameless bool         // a [Member] joins without its name, because another member has it
	Buffer   int64        // bytes of memory for batches, of which a source may use a share; 0: unlimited
	Pool     *Pool        // shared with other streams; nil: the stream has its own
	Observer Observer     // nil: none
	Log      *slog.Logger // nil: none
}

// An Observer is notified of changes to connections. Any goroutine may call its methods.
type Observer interface {
	Reconnected()                      // weir is connected again
	SetConnections(lane string, n int) // a lane has n connections now
	SenderFailed()                     // a sender was disconnected because of an error
	FetchFailed()                      // a request for lines failed
	Rebalanced()                       // a group has assigned or revoked lanes
	// Grouped reports whether the run has joined its group or waits to join, and how many lanes the group has.
	Grouped(joined bool, lanes int)
}

// Unobserved is an Observer that does nothing.
type Unobserved struct{}

// Reconnected implements [Observer].
func (Unobserved) Reconnected() {}

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

// WithDefaults fills in defaults and validates the rest.
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
