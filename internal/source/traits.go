package source

import "strings"

// Traits are what a kind of source is like.
type Traits struct {
	Live       bool // it has no end to wait for: a connection
	Rewindable bool // a later run can begin at a cursor
	Named      bool // its name tells it from others; stdin has none
	Records    bool // its offsets count records, which may be several lines each: a partition
	Dialed     bool // weir makes the connection, and can say from where the feed is to continue
}

// Stored reports whether the source is a file.
func (t Traits) Stored() bool { return t.Named && !t.Live }

// TraitsOf returns the traits of a source by its spec or its name. What only the system can tell
// of a file, as that it is a FIFO, is not in them; see [Begun].
func TraitsOf(spec string) Traits {
	switch {
	case isStdin(spec) || spec == StdinName:
		return Traits{Rewindable: true}
	case isDialed(spec):
		return Traits{Live: true, Named: true, Dialed: true}
	case isKafka(spec):
		return Traits{Live: true, Rewindable: true, Named: true, Records: true}
	case isListener(spec):
		return Traits{Live: true, Named: true}
	}
	return Traits{Rewindable: true, Named: true}
}

const (
	tcpScheme       = "tcp://"
	tlsScheme       = "tls://"
	listenScheme    = "tcp-listen://"
	tlsListenScheme = "tls-listen://"
)

// isDialed reports whether a spec is a connection that weir makes.
func isDialed(spec string) bool {
	return strings.HasPrefix(spec, tcpScheme) || strings.HasPrefix(spec, tlsScheme)
}

// isListener reports whether a spec waits for senders to connect.
func isListener(spec string) bool {
	return strings.HasPrefix(spec, listenScheme) || strings.HasPrefix(spec, tlsListenScheme)
}
