package ladder

import (
	"time"

	"github.com/weirsync/weir/internal/quantity"
	"github.com/weirsync/weir/internal/report"
)

// Usage is what a database has used since it was opened.
type Usage struct {
	Syncs   int64
	Written int64 // bytes, to files; of Postgres, to its log
	Read    int64 // bytes, from the disk; 0: unknown
}

// A Timing is what one run cost.
type Timing struct {
	Rate float64 // messages a second
	Usage
}

// NewTiming returns what n messages cost.
func NewTiming(n int, took time.Duration, before, after Usage) Timing {
	return Timing{RateOf(n, took), Usage{after.Syncs - before.Syncs, after.Written - before.Written, after.Read - before.Read}}
}

// RateOf returns n per second. If the clock is coarse, a short time is zero.
func RateOf(n int, took time.Duration) float64 {
	return float64(n) / max(took, time.Microsecond).Seconds()
}

// A Cost is what writing some messages took: the median of several runs.
type Cost struct {
	Rate    report.Spread `json:"messages_per_second"`
	Syncs   int64         `json:"syncs"`
	Written int64         `json:"written_bytes"`        // to files; of Postgres, to its log
	Read    int64         `json:"read_bytes,omitempty"` // from the disk; 0: unknown
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

// SyncsText returns the syncs as people read them.
func (c *Cost) SyncsText() string { return quantity.Grouped(c.Syncs) }

// WrittenText returns the bytes written as people read them.
func (c *Cost) WrittenText() string { return quantity.Bytes(c.Written) }
