package job

import (
	"fmt"
	"maps"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/progress"
)

// Columns beyond maxNulled are counted together.
const (
	maxNulled    = 100
	otherColumns = "other columns"
)

// countNulled counts values that count as null, and warns of the first value of each column.
func (r *run) countNulled(values []fold.Nulled) {
	for _, v := range values {
		of := v.Table + "." + v.Column
		if _, known := r.nulled[of]; !known && len(r.nulled) >= maxNulled {
			of = otherColumns
		}
		if r.nulled[of]++; r.nulled[of] == 1 {
			r.cfg.Log.Warn(fmt.Sprintf("table %q, column %q: a value that does not fit is stored as NULL (the first one; the summary counts them): %s", v.Table, v.Column, v.Why))
		}
	}
	if len(values) > 0 {
		nulled := maps.Clone(r.nulled)
		r.p.NoteUnused(func(u *progress.Unused) { u.Nulled = nulled })
	}
}
