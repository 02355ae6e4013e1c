package ladder

import (
	"time"

	"github.com/weirsync/weir/bench/report"
	"github.com/weirsync/weir/internal/quantity"
)

// Usage is what a database has used since it was opened.
type Usage struct {
	Syncs   int64
	Written int64 // bytes written to files; in Postgres, to the WAL
	Read    int64 // bytes read from the disk; 0 if unknown
}

// A Timing is the cost of one run.
type Timing struct {
	Rate float64 // messages per second
	Usage
}

// NewTiming returns the cost of n messages.
func NewTiming(n int, took time.Duration, before, after Usage) Timing {
	return Timing{RateOf(n, took), Usage{after.Syncs - before.Syncs, after.Written - before.Written, after.Read - before.Read}}
}

// RateOf returns n per second. With a coarse clock, a short time can be zero.
func RateOf(n int, took time.Duration) float64 {
	return float64(n) / max(took, time.Microsecond).Seconds()
}

// A Cost is the cost of writing some messages: the median of several runs.
type Cost struct {
	Rate    report.Spread `json:"messages_per_second"`
	Syncs   int64         `json:"syncs"`
	Written int64         `json:"written_bytes"`        // to files; in Postgres, to the WAL
	Read    int64         `json:"read_bytes,omitempty"` // from the disk; 0 if unknown
}

// CostOf returns the median of each figure.
func CostOf(runs []Timing) Cost {
	median := func(f func(t Timing) float64) report.Spread {
		var values []float64
		for _, t := range runs {
			values = append(values, f(t))
		}
		return report.SpreadOf(values)
	}
	return Cost{
		Rate:    median(func(t Timing) float64 { return t.Rate }),
		Syncs:   int64(median(func(t Timing) float64 { return float64(t.Syncs) }).Median),
		Written: int64(median(func(t Timing) float64 { return float64(t.Written) }).Median),
		Read:    int64(median(func(t Timing) float64 { return float64(t.Read) }).Median),
	}
}

// SyncsText returns the syncs for the report.
func (c *Cost) SyncsText() string { return quantity.Grouped(c.Syncs) }

// WrittenText returns the bytes written for the report.
func (c *Cost) WrittenText() string { return quantity.Bytes(c.Written) }
