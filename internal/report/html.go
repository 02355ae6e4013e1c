package report

import (
	_ "embed"
	"html/template"
	"io"
	"math"

	"github.com/weirsync/weir/internal/quantity"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{"figure": quantity.Figure}).Parse(pageText))

// HTML writes the page.
func (p *Page) HTML(w io.Writer) error { return pageTemplate.Execute(w, p) }

// A mark is a place on a scale, in percent of its length.
type mark struct {
	At   float64
	Name string
}

// ends returns where the scale of the bars begins and ends: the powers of ten around all values. The
// least one has a bar, too.
func (b *Bars) ends() (begin, end float64) {
	least, most := math.Inf(1), 0.0
	for i := range b.Rows {
		if v := &b.Rows[i].Value; v.Least > 0 {
			least, most = min(least, v.Least), max(most, v.Most)
		}
	}
	if most == 0 {
		return 0, 1
	}
	return math.Ceil(math.Log10(least)) - 1, math.Ceil(math.Log10(most))
}

// Scale returns the marks under the bars.
func (b *Bars) Scale() []mark {
	var marks []mark
	begin, end := b.ends()
	for d := begin; d <= end; d++ {
		marks = append(marks, mark{100 * (d - begin) / (end - begin), short(math.Pow10(int(d)))})
	}
	return marks
}

// At is the place of a value on the scale.
func (b *Bars) At(v float64) float64 {
	begin, end := b.ends()
	return 100 * (math.Log10(max(v, math.Pow10(int(begin)))) - begin) / (end - begin)
}

// Width returns the distance between two values.
func (b *Bars) Width(from, to float64) float64 { return b.At(to) - b.At(from) }

// IsBest reports whether the page marks a row, counted from 0.
func (s *Section) IsBest(row int) bool { return row+1 == s.Best }

// top returns the end of the scale of the dots: 1, 2 or 5 times a power of ten.
func (d *Dots) top() float64 {
	most := 0.0
	for _, s := range d.Series {
		for _, v := range s.Values {
			most = max(most, v.Most)
		}
	}
	unit := math.Pow10(int(math.Floor(math.Log10(max(most, 1e-9)))))
	for _, n := range []float64{1, 2, 5} {
		if most <= n*unit {
			return n * unit
		}
	}
	return 10 * unit
}

// Scale returns the marks at the side of the dots.
func (d *Dots) Scale() []mark {
	var marks []mark
	for _, part := range []float64{0, 0.25, 0.5, 0.75, 1} {
		marks = append(marks, mark{100 - 100*part, short(part * d.top())})
	}
	return marks
}

// Places returns the marks under the dots.
func (d *Dots) Places() []mark {
	var marks []mark
	for i, name := range d.Marks {
		marks = append(marks, mark{d.at(i, 0.5), name})
	}
	return marks
}

// at returns a position in a mark's share of the width: 0 is its left end, 1 its right.
func (d *Dots) at(mark int, part float64) float64 {
	return 100 * (float64(mark) + part) / float64(len(d.Marks))
}

// X returns the position of a value from the left: the series are next to each other at each mark.
func (d *Dots) X(series, mark int) float64 {
	return d.at(mark, 0.2+0.6*(float64(series)+0.5)/float64(len(d.Series)))
}

// Y returns the position of a value from the top.
func (d *Dots) Y(v float64) float64 { return 100 - 100*v/d.top() }

// colors is the number of colors for series.
const colors = 8

// Color returns the number of a series' color.
func (d *Dots) Color(series int) int { return series % colors }
