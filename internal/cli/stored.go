package cli

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// The database is asked at this interval how many rejected lines it keeps, and not at each scrape.
	storedEvery = time.Minute
	// storedPatience is how long a run that has ended waits for the last answer.
	storedPatience = 10 * time.Second
)

// countStored runs a job. Beside it, count is called at once and then once a minute, where metrics are
// served; and when it has ended, where they are written to a file.
func (o *logOptions) countStored(ctx context.Context, count func(context.Context), run func() error) error {
	counting, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if o.metricsAddr == "" {
			return
		}
		again := time.NewTicker(storedEvery)
		defer again.Stop()
		for counting.Err() == nil {
			count(counting)
			select {
			case <-counting.Done():
			case <-again.C:
			}
		}
	}()
	err := run()
	stop()
	<-done
	if o.metricsFile != "" {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), storedPatience)
		defer cancel()
		count(last)
	}
	return err
}

// storedRejects has the metrics know how many rejected lines the database keeps of the job. Where it
// cannot say, they keep what it said before.
func (r *syncRun) storedRejects(ctx context.Context) {
	db, err := r.inspect(ctx)
	if err == nil {
		var n int64
		if n, err = db.StoredRejects(ctx, r.job.Job); err == nil {
			r.metrics.RejectsStored(n)
		}
		err = errors.Join(err, db.Close())
	}
	if err != nil {
		r.log.Debug(fmt.Sprintf("counting the stored rejects: %v", err))
	}
}
