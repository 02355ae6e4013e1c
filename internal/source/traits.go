package source

// Traits describe a source.
type Traits struct {
	Live       bool // it has no end to wait for: a connection
	Rewindable bool // a later run can resume at a cursor
	Named      bool // its name identifies it; stdin has none
	Records    bool // its offsets count records, which may span lines: a partition
	Dialed     bool // weir makes the connection, and can ask the feed to resume after a value
	Divided    bool // it has several lanes, known when it is open; see [Catalog]
}

// Stored reports whether the source is a file.
func (t Traits) Stored() bool { return t.Named && !t.Live }
