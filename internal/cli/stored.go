package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/weirsync/weir/internal/settings"
	"github.com/weirsync/weir/internal/sink"
)

const (
	// storedEvery is how often the database is asked how many rejected lines it keeps. A scrape does not ask.
	storedEvery = time.Minute
	// storedAgain is when it is asked again after an error. Until it answers, /readyz fails.
	storedAgain = 5 * time.Second
	// storedPatience is how long an ended run waits for the last answer.
	storedPatience = 10 * time.Second
)

// countStored runs a job. If metrics are served, it also calls count at once and then every minute, sooner after an
// error. If metrics are written to a file, it calls count at the end.
func countStored(ctx context.Context, o *settings.Output, count func(context.Context) error, run func() error) error {
	counting, stop := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		for wait := time.Duration(0); o.MetricsAddr != ""; {
			select {
			case <-counting.Done():
				return
			case <-time.After(wait):
			}
			if wait = storedEvery; count(counting) != nil {
				wait = storedAgain
			}
		}
	})
	err := run()
	stop()
	done.Wait()
	if o.MetricsFile != "" {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), storedPatience)
		defer cancel()
		_ = count(last) // count has logged the error
	}
	return err
}

// storedRejects updates the metric of the job's rejected lines in the database. If that fails, the metric is unchanged
// and the run is not ready.
func (r *syncRun) storedRejects(ctx context.Context) error {
	var n int64
	db, err := r.plan.To.Reader(ctx, r.plan.To.Dest, sink.Options{Cache: readerCache, Log: slog.New(slog.DiscardHandler)})
	if err == nil {
		n, err = db.StoredRejects(ctx, r.plan.Job.Job)
		err = errors.Join(err, db.Close())
	}
	r.p.DatabaseProbed(n, err)
	if err != nil {
		r.log.Debug(fmt.Sprintf("counting the stored rejects: %v", err))
	}
	return err
}
