package spool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirsync/weir/internal/quantity"
)

const (
	maxSegment = 64 << 20 // bytes of a spool's segment
	minSegment = 64 << 10
	segments   = 8         // the minimum for which a spool has room
	captureAge = time.Hour // age at which a segment of captures ends
)

// open locks the folders, and opens the log: in the spool's folder, or in the captures' if there is no spool.
func (k *Keeper) open() (err error) {
	size, age := int64(maxSegment), time.Duration(0)
	if k.c.Capture != "" {
		if k.captures, err = OpenCaptures(k.c.Capture); err != nil {
			return fmt.Errorf("the capture: %w", err)
		}
		k.folders = append(k.folders, k.captures)
		age = captureAge
	}
	if k.c.Dir != "" {
		locked, err := lock(k.c.Dir, k.c.Dir)
		if err != nil {
			return fmt.Errorf("the spool: %w", err)
		}
		k.folders = append(k.folders, locked)
		size = min(max(k.c.Max/segments, minSegment), maxSegment)
	}
	log, err := Open(Folder(k.path), size, age)
	if err != nil {
		return k.explain(err)
	}
	if k.log = log; log.Lost > 0 {
		k.c.Log.Warn(fmt.Sprintf("the spool %s: its end was not synced when the last run ended, and is incomplete: %s were cut off", k.path, quantity.Bytes(log.Lost)))
	}
	return nil
}

// keep syncs the log each period, and removes what is committed, until halt or a disk failure.
func (k *Keeper) keep() error {
	tick := time.NewTicker(k.c.Period)
	defer tick.Stop()
	for {
		var err error
		select {
		case <-tick.C:
			if err = k.log.Sync(); err == nil {
				err = k.forget(false)
			}
		case <-k.forgetNow:
			err = k.forget(false)
		case <-k.running.Done():
			return k.log.Sync()
		}
		if err != nil {
			return err
		}
	}
}

// forget removes the segments whose lines are committed. If the captures' disk is full they stay for now.
func (k *Keeper) forget(final bool) error {
	if k.captures == nil {
		return k.log.Forget(final, nil)
	}
	err := k.log.Forget(final, k.captures.Add)
	full := IsFull(err)
	if wasFull := k.captureFull.Swap(full); !full {
		return err
	} else if !wasFull {
		k.c.Log.Warn("the capture's disk is full: its lines stay where they are until there is room")
	}
	return nil
}

// halt syncs the log for the last time, and waits for it.
func (k *Keeper) halt() {
	k.cancel()
	k.keeping.Wait()
}

// fail records a disk error, if it is the first.
func (k *Keeper) fail(err error) { k.setFail(k.explain(err)) }

// failure returns the disk error, or nil.
func (k *Keeper) failure() error { return context.Cause(k.failed) }

// explain adds advice to an error of the log.
func (k *Keeper) explain(err error) error {
	err = fmt.Errorf("the spool %s: %w", k.path, err)
	if !errors.As(err, new(*DamageError)) {
		return err
	}
	after := "sync them separately, and then start this run again"
	if k.c.Repeats {
		after = "the next run asks the feed again for what is not committed"
	}
	return fmt.Errorf("%w: move %s/*.jsonl to another folder: %s", err, k.path, after)
}

// close closes the log and the folders, as far as they are open.
func (k *Keeper) close() (err error) {
	if k.log != nil {
		err = k.log.Close()
	}
	for _, f := range k.folders {
		err = errors.Join(err, f.Close())
	}
	k.folders = nil
	return err
}
