package web

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/weirsync/weir/internal/quantity"
)

// A chart is a line over time, with its axes.
type chart struct {
	Name      string
	Line      string // points of an SVG polyline
	Area      string // points of the polygon below it
	Top, Half string // labels of the vertical axis
	Over      time.Duration
}

// The size of a chart in units of its own.
const (
	chartWidth  = 600
	chartHeight = 100
)

// newChart returns the chart of the values at some moments.
func newChart(name string, moments []moment, label func(float64) string, value func(before, m moment) float64) *chart {
	first, last := moments[0].at, moments[len(moments)-1].at
	over := max(last.Sub(first), time.Second)
	values, most := make([]float64, len(moments)), 0.0
	for i, m := range moments {
		values[i] = value(moments[max(0, i-1)], m)
		most = max(most, values[i])
	}
	top := scale(most)
	var line strings.Builder
	for i, m := range moments {
		x := chartWidth * float64(m.at.Sub(first)) / float64(over)
		fmt.Fprintf(&line, "%.1f,%.1f ", x, chartHeight*(1-values[i]/top))
	}
	points := strings.TrimSpace(line.String())
	return &chart{Name: name, Line: points, Area: fmt.Sprintf("0,%d %s %d,%d", chartHeight, points, chartWidth, chartHeight),
		Top: label(top), Half: label(top / 2), Over: over}
}

// scale returns the end of an axis up to most: 1, 2 or 4 times a power of ten.
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

// RateChart shows the rows that were written a second.
func (p *page) RateChart() *chart {
	return newChart("rows written a second", p.moments, quantity.Figure, func(before, m moment) float64 {
		over := m.at.Sub(before.at).Seconds()
		if over <= 0 {
			return 0
		}
		return float64(max(0, m.rows-before.rows)) / over
	})
}

// LagChart shows the lag; the pending lines if it is unknown.
func (p *page) LagChart() *chart {
	switch {
	case p.Kafka != nil:
		return newChart("lag in records", p.moments, quantity.Figure, func(_, m moment) float64 { return m.lag })
	case p.LagSeconds != nil:
		return newChart("lag", p.moments, seconds, func(_, m moment) float64 { return m.lag })
	}
	return newChart("lines pending", p.moments, quantity.Figure, func(_, m moment) float64 { return float64(m.pending) })
}
