package job

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// unreadFiles are the files of an attempt that could not be read to their ends: those after them are read all the same, or
// one damaged archive would hold up its folder for good.
type unreadFiles struct {
	cfg  *Config
	ends bool // the first one ends the run, as what is looked at has to be whole

	mu    sync.Mutex
	first error
	count int
}

// passOver notes why a source was not read to its end, or returns the error if the run cannot continue with other sources.
func (u *unreadFiles) passOver(s *start, err error) error {
	if u.ends || len(u.cfg.Sources) < 2 || u.cfg.Source.Follow || !s.traits.Stored() || s.traits.Records || errors.Is(err, context.Canceled) {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.count++; u.first == nil {
		u.first = err
	}
	u.cfg.Log.Warn(fmt.Sprintf("%v; the other files are read", err), "source", s.name)
	return nil
}

// err is the error that the run ends with.
func (u *unreadFiles) err() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch u.count {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("a file was not read to its end: %w", u.first)
	}
	return fmt.Errorf("%d files were not read to their ends; the first: %w", u.count, u.first)
}
