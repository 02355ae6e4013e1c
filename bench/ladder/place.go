package ladder

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/weirsync/weir/internal/lockfile"
)

// PlacePrefix is the prefix of the names of all runs' folders.
const PlacePrefix = "weir-bench-"

// A Place is the folder of one run. A lock on a file in it shows that the run is alive.
type Place struct {
	Dir  string
	lock *lockfile.File
}

// NewPlace creates a folder, and removes folders that killed runs of this user left behind.
func NewPlace(parent, prefix string, log *slog.Logger) (*Place, error) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), prefix) {
			continue
		}
		if info, err := e.Info(); err != nil || !ours(info) { // in a folder shared by all users
			continue
		}
		left := &Place{Dir: filepath.Join(parent, e.Name())}
		if _, err := os.Stat(left.lockPath()); err != nil { // its run is about to lock it
			continue
		}
		if mine, err := left.take(); err != nil || !mine {
			continue
		}
		if err := left.Remove(); err != nil {
			log.Warn(fmt.Sprintf("cannot remove what a killed run left: %v", err))
			continue
		}
		log.Info(fmt.Sprintf("removed %s, left by a killed run", left.Dir))
	}
	for {
		p := &Place{}
		if p.Dir, err = os.MkdirTemp(parent, prefix); err != nil {
			return nil, err
		}
		if mine, err := p.take(); err != nil {
			return nil, errors.Join(err, os.RemoveAll(p.Dir))
		} else if mine {
			return p, nil
		} // else another run removes the folder, which was not locked yet
	}
}

func (p *Place) lockPath() string { return filepath.Join(p.Dir, "lock") }

// take locks the folder, and reports whether it exists and no other run has it.
func (p *Place) take() (mine bool, err error) {
	if p.lock, err = lockfile.Open(p.lockPath()); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	busy, err := p.lock.Lock(0)
	if err == nil && !busy { // the file may have been removed since
		held, herr := p.lock.Stat()
		now, nerr := os.Stat(p.lockPath())
		mine = herr == nil && nerr == nil && os.SameFile(held, now)
	}
	if !mine {
		err = errors.Join(err, p.lock.Close())
	}
	return mine, err
}

// Remove removes the folder.
func (p *Place) Remove() error {
	if err := errors.Join(os.RemoveAll(p.Dir), p.lock.Close()); err != nil {
		return fmt.Errorf("removing %s: %w", p.Dir, err)
	}
	return nil
}
