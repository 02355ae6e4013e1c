package pipeline

import "time"

// RejectRules tell what happens to bad lines.
type RejectRules struct {
	To   Rejects
	Max  int64         // maximum of a run
	Age  time.Duration // how long the database keeps them; 0: forever
	Show string        // the command that prints them, for the user
}

// Rejects is where bad lines go.
type Rejects string

// Where bad lines go.
const (
	KeepRejects    Rejects = "table"   // into weir_rejects
	FailRejects    Rejects = "fail"    // nowhere: the first ends the run
	DiscardRejects Rejects = "discard" // nowhere; they are counted
)
