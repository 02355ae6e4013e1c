package spool

import (
	"io"
	"path/filepath"
	"time"
)

// IsLocked reports whether the lock that all of the log's methods need is held.
func (l *Log) IsLocked() bool {
	free := l.mu.TryLock()
	if free {
		l.mu.Unlock()
	}
	return !free
}

// AddCapture compresses a content into the next capture in the folder at path.
func AddCapture(path string, began time.Time, content io.WriterTo) error {
	return captures(path).add(began, content)
}

// Lock locks the folder of captures at path.
func Lock(path string) (io.Closer, error) {
	k := &Keeper{}
	err := k.lock(filepath.Join(path, ownDir), path)
	return closer(k.close), err
}

type closer func() error

func (c closer) Close() error { return c() }
