package spool

// IsLocked reports whether somebody holds the lock that all of the log's methods take.
func (l *Log) IsLocked() bool {
	free := l.mu.TryLock()
	if free {
		l.mu.Unlock()
	}
	return !free
}
