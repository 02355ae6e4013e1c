package ladder

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"time"

	"github.com/weirsync/weir/internal/sink"
)

//go:embed ladder.html
var page string

var pageTemplate = template.Must(template.New("ladder").Parse(page))

// SyncsText is the number of syncs for people.
func (c *Cost) SyncsText() string {
	if c.Syncs < 0 {
		return "?"
	}
	return fmt.Sprint(c.Syncs)
}

// WrittenText is what was written, for people.
func (c *Cost) WrittenText() string { return fmt.Sprintf("%.1f MiB", float64(c.Written)/(1<<20)) }

// RateText is the rate for people.
func (c *Cost) RateText() string { return fmt.Sprintf("%.0f", c.Rate) }

// AdviceText is the advice in a sentence.
func (r *Result) AdviceText() string {
	if r.Advice == nil {
		return fmt.Sprintf("No setting that was tried gives %s.", r.Wanted)
	}
	a := r.Advice
	return fmt.Sprintf("For %s: --synchronous %s --batch-period %s (%.0f messages/s, at most %s behind; a power cut takes %s).",
		r.Wanted, a.Level, a.Period, a.Rate, a.Lag.Round(time.Millisecond), a.Lost)
}

// What the plots measure in, in SVG's units.
const (
	plotWidth, plotHeight = 640, 240
	barHeight             = 28
)

// A bar is a rung in the first plot.
type bar struct {
	*Rung
	N, Y  int
	Width float64
}

// Bars are the rungs on a logarithmic scale from 1 message a second on.
func (r *Result) Bars() []bar {
	var bars []bar
	for i := range r.Rungs {
		width := math.Log10(max(r.Rungs[i].Rate, 1)) / math.Log10(max(r.fastest(), 10)) * plotWidth
		bars = append(bars, bar{&r.Rungs[i], i + 1, i * 2 * barHeight, width})
	}
	return bars
}

func (r *Result) fastest() (rate float64) {
	for i := range r.Rungs {
		rate = max(rate, r.Rungs[i].Rate)
	}
	for i := range r.Sweep {
		rate = max(rate, r.Sweep[i].Rate)
	}
	return rate
}

// A curve is a level in the second plot.
type curve struct {
	Level  sink.Level
	Points []point
}

type point struct {
	*Setting
	X, Y float64
}

// Curves are the rates by batch period, for each level.
func (r *Result) Curves() []curve {
	var curves []curve
	for _, level := range levels {
		c := curve{Level: level}
		for i := range r.Sweep {
			s := &r.Sweep[i]
			if s.Level != level {
				continue
			}
			at := math.Log(float64(s.Period)/float64(periods[0])) / math.Log(float64(periods[len(periods)-1])/float64(periods[0]))
			c.Points = append(c.Points, point{s, at * plotWidth, plotHeight * (1 - s.Rate/r.fastest())})
		}
		curves = append(curves, c)
	}
	return curves
}

// Path is the curve in SVG's words.
func (c curve) Path() string {
	path := ""
	for i, p := range c.Points {
		path += fmt.Sprintf("%c%.1f %.1f", "ML"[min(i, 1)], p.X, p.Y)
	}
	return path
}

// HTML writes a page that needs nothing beside itself.
func (r *Result) HTML(w io.Writer) error { return pageTemplate.Execute(w, r) }
