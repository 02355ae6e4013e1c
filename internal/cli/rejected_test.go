package cli

import (
	"testing"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/job"
	"github.com/weirsync/weir/internal/progress"
)

// A reason names the first of its lines: a record by its partition, too, and a line by its file where
// there are several.
func TestRejectedText_FirstOfAReason(t *testing.T) {
	f := func(read string, sources []string, want string) {
		t.Helper()
		first := fold.Reject{Place: fold.Place{Line: 4, Offset: 70}, Reason: feed.NotJSON, Detail: "not JSON"}
		did := &progress.Snapshot{Lines: 9, Rejected: 2, Reasons: []progress.Reason{{Count: 2, Source: read, First: first, Alike: true}}}
		o := &syncOptions{}
		o.rejects = "discard"
		want = "2 of 9 lines were rejected: 2 × not JSON (first: " + want + "). --rejects discard keeps none"
		if got := rejectedText(o, &job.Config{Sources: sources}, did); got != want {
			t.Errorf("\n%s, want\n%s", got, want)
		}
	}
	f("/a.jsonl", []string{"/a.jsonl"}, "line 4")
	f("/a.jsonl", []string{"/a.jsonl", "/b.jsonl"}, "/a.jsonl line 4")
	f("kafka://cluster/flights/3", []string{"kafka://broker/flights"}, "kafka://cluster/flights/3 offset 70")
}
