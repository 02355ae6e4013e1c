package web

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weirsync/weir/internal/quantity"
)

// A chart is a line chart over time.
type chart struct {
	Name      string
	Line      string // points of an SVG polyline
	Area      string // points of the polygon below it
	Top, Half string // labels of the vertical axis
	Over      time.Duration
}

// The size of a chart, in SVG units.
const (
	chartWidth  = 600
	chartHeight = 100
)

// newChart returns the chart of values at moments.
func newChart(name string, moments []moment, values []float64, top float64, label func(float64) string) *chart {
	first, last := moments[0].at, moments[len(moments)-1].at
	over := max(last.Sub(first), time.Second)
	var line strings.Builder
	for i, m := range moments {
		x := chartWidth * float64(m.at.Sub(first)) / float64(over)
		fmt.Fprintf(&line, "%.1f,%.1f ", x, chartHeight*(1-values[i]/top))
	}
	points := strings.TrimSpace(line.String())
	if over > 10*time.Minute {
		over = over.Round(time.Minute)
	}
	return &chart{Name: name, Line: points, Area: fmt.Sprintf("0,%d %s %d,%d", chartHeight, points, chartWidth, chartHeight),
		Top: label(top), Half: label(top / 2), Over: over}
}

// scale returns the upper end of an axis for values up to most: 1, 2 or 4 times a power of ten.
func scale(most float64) float64 {
	if most <= 0 {
		return 1
	}
	unit := math.Pow10(int(math.Floor(math.Log10(most))))
	for _, times := range []float64{1, 2, 4} {
		if most <= times*unit {
			return times * unit
		}
	}
	return 10 * unit
}

// RateChart shows the rows written per second.
func (p *page) RateChart() *chart {
	values := make([]float64, len(p.moments))
	for i := 1; i < len(values); i++ {
		before, m := p.moments[i-1], p.moments[i]
		values[i] = perSecond(m.rows-before.rows, max(m.at.Sub(before.at).Seconds(), 1e-3))
	}
	values[0] = values[1] // the first rate needs two moments
	return newChart("Rows written a second", p.moments, values, scale(slices.Max(values)), quantity.Figure)
}

// LagChart shows the lag, or the pending lines if the lag is unknown.
func (p *page) LagChart() *chart {
	var values []float64
	lag := p.Kafka != nil || p.LagSeconds != nil
	for _, m := range p.moments {
		if lag {
			values = append(values, m.lag)
		} else {
			values = append(values, float64(m.pending))
		}
	}
	most := slices.Max(values)
	switch {
	case p.Kafka != nil:
		return newChart("Lag in records", p.moments, values, scale(most), quantity.Figure)
	case !lag:
		return newChart("Pending lines", p.moments, values, scale(most), quantity.Figure)
	}
	unit := 1.0
	for _, larger := range []time.Duration{time.Minute, time.Hour, 24 * time.Hour} {
		if most > larger.Seconds() {
			unit = larger.Seconds()
		}
	}
	return newChart("Lag", p.moments, values, unit*scale(most/unit), seconds)
}
