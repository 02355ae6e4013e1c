// Package source says what the source of a feed is: it brings blocks of whole lines, lane by lane,
// with cursors to resume from. It does not look into the lines. The kinds of sources are in its
// folders.
package source

import (
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"
)

const (
	// DefaultMaxLine is the longest line in bytes unless Options say otherwise.
	DefaultMaxLine = 16 << 20
	// LimitMaxLine is the highest Options.MaxLine. Consumers keep offsets
	// within a line in 28 bits.
	LimitMaxLine = 1<<28 - 1
	// DefaultPoll is how often a followed file is looked at.
	DefaultPoll = 250 * time.Millisecond
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

// Options are those of all kinds of sources. The zero value is ready to use.
type Options struct {
	MaxLine     int           // bytes of a line without its newline, 1 to LimitMaxLine; 0: DefaultMaxLine
	Follow      bool          // wait for more at the end of a plain file; streams wait anyway
	Poll        time.Duration // interval between looks at a followed file; 0: DefaultPoll
	Compression string        // Auto, None, Gzip, Zstd, Zlib or Deflate; "": Auto
	Stdin       io.Reader     // what "-" reads, never closed; nil: os.Stdin
	Idle        time.Duration // a connection on which nothing comes for this long is lost; 0: never
	TLS         *tls.Config   // of tls://, nil: the system's authorities, TLS 1.2 at least; of tls-listen://
	// Whole reports whether the last line of a connection, which has no newline, is a message: it
	// counts then, if the connection was closed cleanly. nil: none is. It may be called from many
	// goroutines.
	Whole   func(line []byte) bool
	Windows int   // bytes of all senders' zstd windows, if that is more than minWindows take
	Pool    *Pool // of memory, which other streams may share; nil: the stream has its own

	// Of tcp:// and tls://:
	// Hello returns what is sent when a connection is made, to resume after a value; nil: nothing.
	Hello      func(resume string) ([]byte, error)
	Resumes    bool          // the feed is asked for what is not committed; see [Opened]
	RetryFor   time.Duration // how long weir tries to reconnect; 0: not at all
	Reconnects func()        // is called when that begins, from another goroutine than Next's; nil: nothing

	Kafka Kafka

	// Connections is called with how many a lane has, whenever one is made or ends, from other
	// goroutines than Next's; nil: nothing.
	Connections func(lane string, n int)
	// SenderFailed is called for each sender that is disconnected because of an error, from its
	// goroutine; nil: nothing.
	SenderFailed func()

	Log *slog.Logger // nil: none
}

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
	if o.Poll <= 0 {
		o.Poll = DefaultPoll
	}
	if o.Pool == nil {
		o.Pool = NewPool()
	}
	if o.Stdin == nil {
		o.Stdin = os.Stdin
	}
	if o.Reconnects == nil {
		o.Reconnects = func() {}
	}
	if o.Kafka.Rebalanced == nil {
		o.Kafka.Rebalanced = func() {}
	}
	if o.Connections == nil {
		o.Connections = func(string, int) {}
	}
	if o.SenderFailed == nil {
		o.SenderFailed = func() {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o, nil
}
