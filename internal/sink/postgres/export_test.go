package postgres

// ReadAheadBy has slices of about that many rows read ahead, and of few rows, too, where a flush wants that.
func ReadAheadBy(rows int) { aheadRows, leastAhead = rows, 1 }
