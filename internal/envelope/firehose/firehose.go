// Package firehose holds what weir knows of Firehose, FlightAware's feed, whose documentation
// describes the first line and the messages.
package firehose

import (
	"fmt"
	"time"

	"github.com/weirsync/weir/internal/source"
)

const (
	// Name is that of the feed in --feed.
	Name = "firehose"
	// Port is that of the server, where an address has none.
	Port = "1501"
	// Version is that of the messages which the first line asks for: without one the server sends the latest, in
	// which the meaning of fields may have changed.
	Version = "37.0"

	// ResumeField has a message's place in the feed, which is its time too.
	ResumeField = "pitr"
	// KeepaliveWhen matches messages that only keep the connection open.
	KeepaliveWhen = "type=keepalive"
	// ErrorWhen matches errors of the feed.
	ErrorWhen = "type=error"
	// ErrorField of such an error says what is wrong.
	ErrorField = "error_msg"

	keepalive = 60 * time.Second // the interval that Init asks for
	// Idle is how long a connection may be silent: the keepalive interval, and 10 s of delay.
	Idle = keepalive + 10*time.Second

	// InitPattern matches the first line of a client.
	InitPattern = `^(?:live|pitr (?P<resume>[0-9]+)|range [0-9]+ [0-9]+) username \S+ password \S+(?: version [0-9.]+)?(?: compression (?P<compression>gzip|compress|deflate))?(?: keepalive [0-9]+)?(?: events ".*")?$`
)

// Init returns the template of the first line, for a compression and the events to ask for; "" are
// all.
func Init(compression, events string) string {
	line := `{{if .resume}}pitr {{.resume}}{{else}}live{{end}} username {{env "FH_USERNAME"}} password {{env "FH_APIKEY"}} version ` + Version
	switch compression {
	case source.Gzip:
		line += " compression gzip"
	case source.Zlib:
		line += " compression compress"
	case source.Deflate:
		line += " compression deflate"
	}
	line += fmt.Sprintf(" keepalive %.0f", keepalive.Seconds())
	if events != "" {
		line += fmt.Sprintf(" events %q", events)
	}
	return line
}
