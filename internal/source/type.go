package source

// A Type is what a source is, and each lane of it.
type Type string

// The types of sources. A lane may be a [FIFO] or [Spooled] instead; see [Lane].
const (
	File      Type = "file"
	Stdin     Type = "stdin"
	Listener  Type = "listener"  // several senders connect to it
	Dialed    Type = "dialed"    // a feed that weir connects to, and can ask to resume after a value
	Remote    Type = "remote"    // a server whose lines can be read again at a cursor
	Partition Type = "partition" // of a topic: offsets count records, which may span lines; see [Catalog]

	FIFO    Type = "fifo"    // a FIFO or a device: no run can read its lines again
	Spooled Type = "spooled" // lines that stay on disk until they are committed
)

// Live reports whether the source has no end to wait for.
func (t Type) Live() bool { return t == Listener || t == Dialed || t == Remote || t == Partition }

// Rewindable reports whether a later run can resume the source at a cursor.
func (t Type) Rewindable() bool { return t == File || t == Stdin || t == Remote || t == Partition }
