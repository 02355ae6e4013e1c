package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirsync/weir/internal/spec"
)

const (
	// The database is asked at this interval how many rejected lines it keeps, and not at each scrape.
	storedEvery = time.Minute
	// storedAgain is when it is asked again where it has not answered: /readyz says so until it does.
	storedAgain = 5 * time.Second
	// storedPatience is how long a run that has ended waits for the last answer.
	storedPatience = 10 * time.Second
)

// countStored runs a job. Beside it, count is called at once and then once a minute, where metrics are
// served, and sooner after an error; and when it has ended, where they are written to a file.
func countStored(ctx context.Context, o *spec.Output, count func(context.Context) error, run func() error) error {
	counting, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if o.MetricsAddr == "" {
			return
		}
		for counting.Err() == nil {
			wait := storedEvery
			if count(counting) != nil {
				wait = storedAgain
			}
			select {
			case <-counting.Done():
			case <-time.After(wait):
			}
		}
	}()
	err := run()
	stop()
	<-done
	if o.MetricsFile != "" {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), storedPatience)
		defer cancel()
		_ = count(last) // which has logged why
	}
	return err
}

// storedRejects has the metrics know how many rejected lines the database keeps of the job. Where it
// cannot say, they keep what it said before, and the run is not ready.
func (r *syncRun) storedRejects(ctx context.Context) error {
	db, err := r.inspect(ctx)
	if err == nil {
		var n int64
		if n, err = db.StoredRejects(ctx, r.job.Job); err == nil {
			r.metrics.RejectsStored(n)
		}
		err = errors.Join(err, db.Close())
	}
	r.p.DatabaseProbed(err)
	if err != nil {
		r.log.Debug(fmt.Sprintf("counting the stored rejects: %v", err))
	}
	return err
}
