package web

import (
	"fmt"
	"time"

	"github.com/weirsync/weir/internal/quantity"
)

// A chart has a bar for each of the last flushes, where it was in time.
type chart struct {
	Bars     []bar
	Width    string // of a bar
	MostRows int64
	Longest  float64       // seconds
	Over     time.Duration // from the first bar until now
}

// A bar is a flush: in the chart of rows, and in that of durations.
type bar struct {
	X                 string
	RowsY, RowsHeight string
	TookY, TookHeight string
	Title             string
}

// The sizes of the charts, in units of their own.
const (
	chartWidth = 600
	rowsHeight = 60
	tookHeight = 30
)

// Chart returns nil where there was no flush.
func (p *page) Chart() *chart {
	all := p.RecentFlushes
	if len(all) == 0 {
		return nil
	}
	c := &chart{Over: p.Since(all[0].Time)}
	for _, f := range all {
		c.MostRows, c.Longest = max(c.MostRows, f.Rows), max(c.Longest, f.Seconds)
	}
	width := min(8, 0.8*chartWidth/float64(len(all)))
	c.Width = fmt.Sprintf("%.1f", width)
	for _, f := range all {
		at := 1 - float64(p.Since(f.Time))/max(1, float64(c.Over))
		b := bar{X: fmt.Sprintf("%.1f", at*(chartWidth-width)),
			Title: fmt.Sprintf("%s UTC: %s in %s", f.Time.Format(time.TimeOnly), quantity.Count(f.Rows, "row"), seconds(f.Seconds))}
		b.RowsY, b.RowsHeight = column(float64(f.Rows)/float64(max(1, c.MostRows)), rowsHeight)
		b.TookY, b.TookHeight = column(f.Seconds/max(1e-9, c.Longest), tookHeight)
		c.Bars = append(c.Bars, b)
	}
	return c
}

// column returns where a bar begins and how high it is, for a share of the highest one.
func column(share, height float64) (y, h string) {
	if share > 0 {
		share = max(share, 1/height) // it is seen
	}
	return fmt.Sprintf("%.1f", height*(1-share)), fmt.Sprintf("%.1f", height*share)
}
