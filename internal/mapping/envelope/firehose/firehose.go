// Package firehose has what weir knows about Firehose, FlightAware's feed. FlightAware's documentation describes the
// first line and the messages.
package firehose

import (
	"fmt"
	"time"

	"github.com/weirsync/weir/internal/source"
)

const (
	// Name is the feed's name in --feed.
	Name = "firehose"
	// Port is the server's default port.
	Port = "1501"
	// Version is the version of messages to request. Without it the server sends the latest, in which fields may have
	// another meaning.
	Version = "37.0"

	// ResumeField is a message's position in the feed, and its time.
	ResumeField = "pitr"
	// KeepaliveWhen matches messages that only keep the connection open.
	KeepaliveWhen = "type=keepalive"
	// ErrorWhen matches errors of the feed.
	ErrorWhen = "type=error"
	// ErrorField is the text of such an error.
	ErrorField = "error_msg"

	keepalive = 60 * time.Second // the interval that Init requests
	// Idle is how long a connection may be silent: the keepalive interval plus 10 s.
	Idle = keepalive + 10*time.Second

	// InitPattern matches the first line of a client.
	InitPattern = `^(?:live|pitr (?P<resume>[0-9]+)|range [0-9]+ [0-9]+) username \S+ password \S+(?: version [0-9.]+)?(?: compression (?P<compression>gzip|compress|deflate))?(?: keepalive [0-9]+)?(?: events ".*")?$`
)

// Init returns the template of the first line, for a compression and the events to request; "" requests all.
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
