package sink

import (
	"encoding/json"
	"time"
)

// Orphans is the progress of a scan of one table's states in weir_versions, which finds states whose rows something
// other than weir has deleted. Each flush scans some, in key order. [OrphansMark] stores the progress between flushes.
type Orphans struct {
	Due     time.Time // when the next scan is due
	After   []byte    // the last key scanned; nil: a scan starts
	Looked  int       // states scanned in this pass
	Dropped int       // states dropped in this pass
}

const (
	orphansEvery = time.Hour // after a pass that found few
	orphansScan  = 1000      // states scanned per flush, plus two for each of its rows
	// orphansAtOnce are loaded at a time. In Postgres other writers of the table wait meanwhile.
	orphansAtOnce = 5000
)

// OrphansMark returns the key in weir_meta of a table's [Orphans].
func OrphansMark(table string) string { return "orphans " + table }

// ReadOrphans decodes a mark. If it is missing or damaged, a pass is due.
func ReadOrphans(mark string) (o Orphans) {
	if json.Unmarshal([]byte(mark), &o) != nil {
		return Orphans{}
	}
	return o
}

// Mark encodes o.
func (o *Orphans) Mark() string {
	text, _ := json.Marshal(o) // times, bytes and numbers
	return string(text)
}

// Next returns how many states to scan next in a flush of rows rows that has already scanned before states; 0: none.
// The total exceeds what the flush can add, so a pass ends.
func (o *Orphans) Next(rows, before int) (most int) {
	if time.Now().Before(o.Due) || before > 0 && o.After == nil {
		return 0
	}
	return max(0, min(orphansAtOnce, orphansScan+2*rows-before))
}

// Record records a scan of at most most states: how many there were, the last key, and how many were dropped. At the
// end of a pass, the next is due in an hour, or at once if an eighth was dropped.
func (o *Orphans) Record(most, scanned int, last []byte, dropped int) {
	o.After, o.Looked, o.Dropped = last, o.Looked+scanned, o.Dropped+dropped
	if scanned == most {
		return
	}
	if o.Dropped == 0 || o.Dropped < o.Looked/8 {
		o.Due = time.Now().Add(orphansEvery)
	}
	o.After, o.Looked, o.Dropped = nil, 0, 0
}
