package spool

// IsLocked reports whether the lock that all of the log's methods need is held.
func (l *Log) IsLocked() bool {
	free := l.mu.TryLock()
	if free {
		l.mu.Unlock()
	}
	return !free
}
