package experiment

import (
	"time"

	"github.com/weirsync/weir/internal/quantity"
	"github.com/weirsync/weir/internal/report"
)

// A Cost is what writing some messages took: the median of several runs.
type Cost struct {
	Rate    report.Spread `json:"messages_per_second"`
	Syncs   int64         `json:"syncs"`
	Written int64         `json:"written_bytes"`        // to files; of Postgres, to its log
	Read    int64         `json:"read_bytes,omitempty"` // from the disk; 0: that is not known
}

// A run is what one run cost.
type run struct {
	rate                 float64
	syncs, written, read int64
}

func newRun(n int, took time.Duration, before, after usage) run {
	return run{rateOf(n, took), after.syncs - before.syncs, after.written - before.written, after.read - before.read}
}

// rateOf is how many in a second. Where the clock is coarse, a short time is none.
func rateOf(n int, took time.Duration) float64 {
	return float64(n) / max(took, time.Microsecond).Seconds()
}

// ratioOf is how many times as high the rates of runs are as those of others that took turns with
// them.
func ratioOf(runs, others []run) report.Spread {
	values := make([]float64, len(runs))
	for i := range runs {
		values[i] = runs[i].rate / others[i].rate
	}
	return report.SpreadOf(values)
}

// costOf is the median of each part.
func costOf(runs []run) Cost {
	median := func(f func(r run) float64) report.Spread {
		var values []float64
		for _, r := range runs {
			values = append(values, f(r))
		}
		return report.SpreadOf(values)
	}
	return Cost{
		Rate:    median(func(r run) float64 { return r.rate }),
		Syncs:   int64(median(func(r run) float64 { return float64(r.syncs) }).Median),
		Written: int64(median(func(r run) float64 { return float64(r.written) }).Median),
		Read:    int64(median(func(r run) float64 { return float64(r.read) }).Median),
	}
}

func (c *Cost) syncsText() string { return quantity.Grouped(c.Syncs) }

func (c *Cost) writtenText() string { return quantity.Bytes(c.Written) }
