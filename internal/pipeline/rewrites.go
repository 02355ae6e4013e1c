package pipeline

import "github.com/weirsync/weir/internal/fold"

// rewrites measures how often a run writes each row, with one row in sampledRows. Only sets that filled their memory
// count, because larger ones would write less.
type rewrites struct {
	writes int64
	rows   map[sampledRow]bool
}

type sampledRow struct {
	table int
	hash  uint64
}

const sampledRows = 256

// count counts the rows of a set.
func (w *rewrites) count(s *fold.Set) {
	for table, b := range s.Batches {
		for hash := range b.Hashes() {
			if hash%sampledRows == 0 {
				w.writes++
				w.rows[sampledRow{table, hash}] = true
			}
		}
	}
}

// perRow returns how often each row was written on average; 0 if no set counts.
func (w *rewrites) perRow() float64 { return float64(w.writes) / float64(max(1, len(w.rows))) }
