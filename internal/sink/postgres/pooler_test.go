package postgres_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/logtest"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/postgres"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/testpg"
)

// TestPooler has several runs share two sessions, which a pooler gives to whoever
// has a transaction.
func TestPooler(t *testing.T) {
	db := connect(t, testpg.New(t))
	db.weir = testpg.Pool(t, db.url, "transaction")
	var mu sync.Mutex
	var said []string
	db.opt.Log = logtest.To(func(text string) {
		mu.Lock()
		defer mu.Unlock()
		said = append(said, text)
	})
	db.Exec(t, "CREATE TABLE t (id text PRIMARY KEY, a integer CHECK (a <> 7), b integer)")
	const runs, flushes = 4, 30
	var wg sync.WaitGroup
	for i := range runs {
		r := sinktest.BeginJob(t, db, fmt.Sprint("job ", i))
		wg.Go(func() {
			s := sink.Retry(r.Sink, time.Minute, func(*sink.Error) {})
			for n := range flushes {
				for k := range 50 {
					r.Fold(fmt.Sprintf(`{"id":"%d-%d","a":%d}`, i, k, 100+n), fmt.Sprintf(`{"id":"all-%d","b":%d}`, k, n))
				}
				r.Fold(fmt.Sprintf(`{"id":"%d-%d","a":7}`, i, n), "bad")
				if _, err := s.Flush(t.Context(), r.Seal()); err != nil {
					t.Error(err)
					return
				}
				r.Reset()
			}
		})
	}
	wg.Wait()
	if !slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, "behind a pooler") }) {
		t.Errorf("the pooler was not noticed: %q", said)
	}
	sinktest.Expect(t, db, "SELECT count(*), min(a), max(b) FROM t", fmt.Sprintf("%d|%d|%d", 50*(runs+1), 100+flushes-1, flushes-1))
	sinktest.Expect(t, db, "SELECT count(*), count(DISTINCT (job, line)) FROM weir_rejects", fmt.Sprintf("%d|%[1]d", 2*runs*flushes))
	sinktest.Expect(t, db, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'", "0")
}

// TestPooler_StatementMode: a pooler that takes no transactions is a wrong setting.
func TestPooler_StatementMode(t *testing.T) {
	url := testpg.Pool(t, testpg.New(t), "statement")
	_, err := postgres.Open(t.Context(), url, sink.Options{Level: sink.Full, Log: logtest.New(t)})
	var e *sink.Error
	if !errors.As(err, &e) || e.Class != sink.Permanent || !strings.Contains(err.Error(), "transaction blocks not allowed") {
		t.Errorf("opening ended with %v", err)
	}
}
