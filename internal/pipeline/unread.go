package pipeline

import (
	"context"
	"errors"
	"fmt"

	"github.com/weirsync/weir/internal/source"
)

// unreadFiles are the files of an attempt that could not be read to their ends. The files after them are still read:
// otherwise one damaged archive would block its folder forever. The reader owns them.
type unreadFiles struct {
	*run
	first error
	count int
}

// noteUnread records why a source was not read to its end. It returns the error if the run cannot continue without it.
func (u *unreadFiles) noteUnread(s *start, err error) error {
	if u.dryRun || len(u.cfg.Sources) < 2 || u.cfg.Source.Follow || s.kind != source.File || errors.Is(err, context.Canceled) {
		return err
	}
	if u.count++; u.first == nil {
		u.first = err
	}
	u.cfg.Log.Warn(fmt.Sprintf("%v; the other files are read", err), "source", s.name)
	return nil
}

// err returns the error that the run ends with.
func (u *unreadFiles) err() error {
	if u.count == 0 {
		return nil
	}
	return fmt.Errorf("files that were not read to their ends: %d; the first: %w", u.count, u.first)
}
