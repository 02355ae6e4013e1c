package sink

import (
	"encoding/json"
	"time"
)

// Orphans is how far the states in weir_versions of one table were looked through for those of rows that somebody else
// has deleted. A pass looks at some with each flush, in the order of their keys; [OrphansMark] holds it between two
// flushes.
type Orphans struct {
	Due     time.Time // when the next look is
	After   []byte    // the key of the last state that was looked at; nil: a pass begins
	Looked  int       // at how many states, in this pass
	Dropped int       // how many of them
}

const (
	orphansEvery = time.Hour // after a pass that found few
	orphansLook  = 1000      // states that a flush looks at, beside two for each of its rows
	// orphansAtOnce are in memory, and in Postgres keep other writers of the table waiting.
	orphansAtOnce = 5000
)

// OrphansMark is the name of the mark with the [Orphans] of a table.
func OrphansMark(table string) string { return "orphans " + table }

// ReadOrphans reads the value of a mark; of none, and of one that is damaged, a pass is due.
func ReadOrphans(mark string) (o Orphans) {
	if json.Unmarshal([]byte(mark), &o) != nil {
		return Orphans{}
	}
	return o
}

// Mark is the value of the mark.
func (o *Orphans) Mark() string {
	text, _ := json.Marshal(o) // times, bytes and numbers
	return string(text)
}

// Next returns at how many states to look next, at most, with a flush of so many rows that has looked at some before; 0: at
// none. All in all they are more than the flush can add, so that a pass ends.
func (o *Orphans) Next(rows, before int) (most int) {
	if time.Now().Before(o.Due) || before > 0 && o.After == nil {
		return 0
	}
	return max(0, min(orphansAtOnce, orphansLook+2*rows-before))
}

// Took notes what came of a look at most states: how many there were, the key of the last one, and how many were dropped. After
// the last one, the next pass begins in an hour, or with the next flush if an eighth went.
func (o *Orphans) Took(most, looked int, last []byte, dropped int) {
	o.After, o.Looked, o.Dropped = last, o.Looked+looked, o.Dropped+dropped
	if looked == most {
		return
	}
	if o.Dropped == 0 || o.Dropped < o.Looked/8 {
		o.Due = time.Now().Add(orphansEvery)
	}
	o.After, o.Looked, o.Dropped = nil, 0, 0
}
