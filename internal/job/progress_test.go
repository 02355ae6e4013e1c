package job_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/progress"
)

// TestProgress_Pending: lines are pending until they are committed, also when their numbers begin
// again with another file.
func TestProgress_Pending(t *testing.T) {
	for name, period := range map[string]time.Duration{"committed at once": time.Millisecond, "not at all": time.Hour} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "feed.jsonl")
			for name, text := range map[string]string{path: "{\"id\":1}\nbad\n{\"id\":2}\n\n", path + ".new": "{\"id\":3}\n{\"id\":4}\n"} {
				if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			c := configOf(t, path, "table")
			c.Source.Follow, c.BatchPeriod = true, period
			pending := func(lines int64) int64 {
				if period == time.Hour {
					return lines
				}
				return 0
			}
			p, err := runUntil(t, c, filepath.Join(t.TempDir(), "t.db"), nil, func(p *progress.Progress) bool {
				s := p.Snapshot()
				if s.Lines == 4 && s.Pending == pending(4) {
					_ = os.Rename(path+".new", path) // the second time there is none
				}
				return s.Lines == 6 && s.Pending == pending(6) && s.Lanes[0].Pending == s.Pending
			})
			if err != nil {
				t.Fatal(err)
			}
			s := p.Snapshot()
			if s.Pending != 0 || s.Lanes[0].Open || s.Lanes[0].LastMessage.IsZero() || s.Lanes[0].Rejected != 1 || s.Tables[0].Messages != 4 {
				t.Errorf("at the end: %+v", s)
			}
		})
	}
}
