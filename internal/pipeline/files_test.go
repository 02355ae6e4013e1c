package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/pipeline"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/status"
	"github.com/weirsync/weir/internal/test/logtest"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// smallFiles writes n files of one line each, and returns a job that reads all of them.
func smallFiles(t *testing.T, n int) pipeline.Config {
	t.Helper()
	dir := t.TempDir()
	c := configOf(t, "", "fail")
	c.Sources, c.BatchPeriod = nil, 0
	for i := range n {
		path := filepath.Join(dir, fmt.Sprintf("%05d.jsonl", i))
		write(t, path, []string{fmt.Sprintf(`{"id":%d,"a":%d}`, i%1500, i)})
		c.Sources = append(c.Sources, path)
	}
	return c
}

// Many small files take few flushes, and none if no file has changed.
func TestSync_ManyFilesAreFewFlushes(t *testing.T) {
	const files, lanesAtOnce = 2000, 1000
	both(t, func(t *testing.T, dest string) {
		c := smallFiles(t, files)
		p := succeeds(t, c, dest, nil)
		if got, most := p.Snapshot().Batches, int64(files/c.BatchRows+files/lanesAtOnce+1); got > most {
			t.Errorf("%d files were %d flushes, want %d at most", files, got, most)
		}
		has(t, dest, "1500|1874250", "SELECT count(*) || '|' || sum(a) FROM t")
		const checkpoints = "SELECT count(*) || '|' || sum(seq) || '|' || max(updated) FROM weir_checkpoints"
		before := query(t, dest, checkpoints)
		for _, path := range c.Sources {
			spoil(t, path)
		}
		p = succeeds(t, c, dest, nil)
		if after := query(t, dest, checkpoints); after != before || p.Snapshot().Batches != 0 || p.Snapshot().Lines != 0 {
			t.Errorf("the second run read %d lines and wrote %d batches: the checkpoints are %s, were %s", p.Snapshot().Lines, p.Snapshot().Batches, after, before)
		}
	})
}

// spoil replaces the content of a file but keeps its size and time, so a run that reads it fails.
func spoil(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	testcheck.NoError(t, err)
	write(t, path, []string{strings.Repeat("x", int(info.Size())-1)})
	testcheck.NoError(t, os.Chtimes(path, time.Time{}, info.ModTime()))
}

// Emptied tables are filled in one run, although its first flush removes the checkpoints of sources that are claimed
// later.
func TestSync_RebuildOfManyFiles(t *testing.T) {
	both(t, func(t *testing.T, dest string) {
		c := smallFiles(t, 500)
		succeeds(t, c, dest, nil)
		c.Restart.Rebuild, c.BatchRows = true, 50
		warned := ""
		c.Log = logtest.To(func(text string) { warned += text })
		p := succeeds(t, c, dest, nil)
		has(t, dest, "500|124750", "SELECT count(*) || '|' || sum(a) FROM t")
		if p.Snapshot().Lines != 500 || warned != "" {
			t.Errorf("%d lines were read, want 500: %s", p.Snapshot().Lines, warned)
		}
	})
}

// heldClaims counts the lanes that a run has claimed.
type heldClaims struct {
	sink.Claims
	mu   sync.Mutex
	held map[string]bool
	most int
}

func (c *heldClaims) Take(ctx context.Context, lanes ...string) ([]sink.Checkpoint, error) {
	c.mu.Lock()
	for _, l := range lanes {
		c.held[l] = true
	}
	c.most = max(c.most, len(c.held))
	c.mu.Unlock()
	return c.Claims.Take(ctx, lanes...)
}

func (c *heldClaims) Drop(ctx context.Context, lanes ...string) error {
	c.mu.Lock()
	for _, l := range lanes {
		delete(c.held, l)
	}
	c.mu.Unlock()
	return c.Claims.Drop(ctx, lanes...)
}

// TestSync_FilesWithoutLinesAreReleased: claims of files that bring nothing to write are released while other files are
// read, because a server only has room for a few thousand locks. Such files are empty, or were read before and then
// touched.
func TestSync_FilesWithoutLinesAreReleased(t *testing.T) {
	const files, most = 4000, 3300 // lanes of two sets, the current one, and those claimed ahead
	dest := filepath.Join(t.TempDir(), "t.db")
	c := smallFiles(t, files)
	for _, what := range []string{"empty", "touched"} {
		for _, path := range c.Sources {
			var err error
			if what == "empty" {
				err = os.Truncate(path, 0)
			} else {
				err = os.Chtimes(path, time.Time{}, time.Now().Add(time.Hour))
			}
			testcheck.NoError(t, err)
		}
		db, claims := openSink(t, dest, sink.Off), &heldClaims{Claims: openClaims(t, dest), held: map[string]bool{}}
		testcheck.NoError(t, pipeline.Run(t.Context(), c, db, claims, status.New("t")))
		if claims.most > most || len(claims.held) > 0 {
			t.Errorf("%s files: %d claims at a time, want %d at most; %d are left", what, claims.most, most, len(claims.held))
		}
		if err := errors.Join(claims.Close(), db.Close()); err != nil {
			t.Error(err)
		}
		if what == "empty" {
			for i, path := range c.Sources {
				write(t, path, []string{fmt.Sprintf(`{"id":%d}`, i%1500)})
			}
			succeeds(t, c, dest, nil)
		}
	}
}
