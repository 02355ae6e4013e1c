package job

import (
	"testing"
	"time"

	"github.com/weirsync/weir/internal/fold"
)

// TestReader_FillsABatchWhileItIsBehind: a batch of a followed file or of Kafka is written after its period if there is
// nothing more to read, else after the longer one.
func TestReader_FillsABatchWhileItIsBehind(t *testing.T) {
	for name, test := range map[string]struct {
		age            time.Duration
		prompt, behind bool
		due            bool
	}{
		"before its period":                {time.Second / 4, true, true, false},
		"with more to read":                {2 * time.Second, false, true, false},
		"with more to read, for long":      {catchUpPeriod + time.Second, false, true, true},
		"with nothing to read":             {2 * time.Second, false, false, true},
		"promptly, whatever there is more": {2 * time.Second, true, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			rd := &reader{run: &run{}, scans: &scanPool{events: make(chan *event, 1)}, free: make(chan *set, 2), set: &set{Set: fold.NewSet(0)}}
			rd.free <- nil
			rd.set.first, rd.set.period, rd.set.prompt = time.Now().Add(-test.age), time.Second, test.prompt
			e := &event{ready: make(chan struct{}, 1)}
			e.ready <- struct{}{}
			if test.behind {
				rd.scans.events <- e
			} else {
				time.AfterFunc(10*time.Millisecond, func() { close(rd.scans.events) })
			}
			if _, err := rd.next(t.Context()); err != nil {
				t.Fatal(err)
			}
			if due := rd.set.first.IsZero(); due != test.due { // an empty set that is handed over begins again
				t.Errorf("written: %v, want %v", due, test.due)
			}
		})
	}
}
