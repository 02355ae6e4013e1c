package web

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weirsync/weir/internal/quantity"
	"github.com/weirsync/weir/internal/status"
)

// A chart is a line chart over time.
type chart struct {
	Name      string
	Line      string // points of an SVG polyline
	Area      string // points of the polygon below it
	Top, Half string // labels of the vertical axis
	Over      time.Duration
	Values    []chartValue
}

// A chartValue is a value that the chart shows when it is pointed at.
type chartValue struct {
	Text string
	Ago  time.Duration
}

// The size of a chart, in SVG units.
const (
	chartWidth  = 600
	chartHeight = 100
)

// newChart returns the chart of the known values of moments; the others are nil. nil: none is known.
func newChart(name string, moments []status.Moment, values []*float64, unit float64, label func(float64) string) *chart {
	var most float64
	var line strings.Builder
	for _, v := range values {
		if v != nil {
			most = max(most, *v)
		}
	}
	first := slices.IndexFunc(values, func(v *float64) bool { return v != nil })
	if first < 0 {
		return nil
	}
	c, top, now := &chart{Name: name}, unit*scale(most/unit), moments[len(moments)-1].At
	c.Over = max(now.Sub(moments[first].At), time.Second)
	x := func(at status.Time) float64 { return chartWidth * (1 - float64(now.Sub(at))/float64(c.Over)) }
	last := 0.0
	for i, v := range values {
		if v != nil {
			last = x(moments[i].At)
			fmt.Fprintf(&line, "%.1f,%.1f ", last, chartHeight*(1-*v/top))
			c.Values = append(c.Values, chartValue{label(*v), now.Sub(moments[i].At)})
		}
	}
	c.Line = strings.TrimSpace(line.String())
	c.Area = fmt.Sprintf("%.1f,%d %s %.1f,%d", x(moments[first].At), chartHeight, c.Line, last, chartHeight)
	c.Top, c.Half = label(top), label(top/2)
	if c.Over > 10*time.Minute {
		c.Over = c.Over.Round(time.Minute)
	}
	return c
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
	values := make([]*float64, len(p.moments))
	for i := 1; i < len(values); i++ {
		before, m := p.moments[i-1], p.moments[i]
		values[i] = new(float64(m.Written-before.Written) / max(m.At.Sub(before.At).Seconds(), 1e-3))
	}
	values[0] = values[1] // the first rate needs two moments
	return newChart("Rows written a second", p.moments, values, 1, quantity.Figure)
}

// LagChart shows the lag, or the pending lines if the lag is unknown.
func (p *page) LagChart() *chart {
	lags, pending, most := make([]*float64, len(p.moments)), make([]*float64, len(p.moments)), 0.0
	for i, m := range p.moments {
		if lags[i], pending[i] = m.Lag, new(float64(m.Pending)); m.Lag != nil {
			most = max(most, *m.Lag)
		}
	}
	switch {
	case p.Kafka != nil:
		return newChart("Lag in records", p.moments, lags, 1, quantity.Figure)
	case p.LagSeconds == nil:
		return newChart("Pending lines", p.moments, pending, 1, quantity.Figure)
	}
	unit := 1.0
	for _, larger := range []time.Duration{time.Minute, time.Hour, 24 * time.Hour} {
		if most > larger.Seconds() {
			unit = larger.Seconds()
		}
	}
	return newChart("Lag", p.moments, lags, unit, quantity.Seconds)
}
