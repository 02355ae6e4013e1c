package spool

// IsLocked reports whether the lock that all of the log's methods need is held.
func (l *Log) IsLocked() bool {
	free := l.mu.TryLock()
	if free {
		l.mu.Unlock()
	}
	return !free
}

// Bounds returns the offsets of the first line, of the first uncommitted line, and after the last one.
func (l *Log) Bounds() (begin, committed, end int64) {
	begin, committed, end, _ = l.bounds()
	return begin, committed, end
}

// End returns the offset after the last line.
func (l *Log) End() int64 {
	_, _, end := l.Bounds()
	return end
}
