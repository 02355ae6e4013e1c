package source

// Traits are what a source is like.
type Traits struct {
	Live       bool // it has no end to wait for: a connection
	Rewindable bool // a later run can begin at a cursor
	Named      bool // its name tells it from others; stdin has none
	Records    bool // its offsets count records, which may be several lines each: a partition
	Dialed     bool // weir makes the connection, and can say from where the feed is to continue
	Divided    bool // it has several lanes, which are known when it is open; see [Catalog]
}

// Stored reports whether the source is a file.
func (t Traits) Stored() bool { return t.Named && !t.Live }
