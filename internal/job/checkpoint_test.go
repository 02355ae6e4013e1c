package job_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
)

// lateCommit is a database that a run has asked for its table just before the last commit of
// another one came, which was killed.
type lateCommit struct {
	sink.Sink
	asked bool
}

func (l *lateCommit) Tables(ctx context.Context, wanted ...sink.TableKey) ([]schema.Table, error) {
	if !l.asked {
		l.asked = true
		return []schema.Table{{Name: wanted[0].Name}}, nil
	}
	return l.Sink.Tables(ctx, wanted...)
}

func TestSync_TheTableIsMadeByALateCommit(t *testing.T) {
	dir := t.TempDir()
	feed, db := filepath.Join(dir, "feed.jsonl"), filepath.Join(dir, "t.db")
	if err := os.WriteFile(feed, []byte("{\"id\":1}\n{\"id\":2}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := configOf(t, feed, "table")
	if _, err := runUntil(t, c, db, nil, never); err != nil {
		t.Fatal(err)
	}
	late := &lateCommit{}
	if _, err := runUntil(t, c, db, func(s sink.Sink) sink.Sink { late.Sink = s; return late }, never); err != nil || !late.asked {
		t.Errorf("the run ended with %v", err)
	}
}
