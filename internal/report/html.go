package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"

	"github.com/weirsync/weir/internal/quantity"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{"figure": quantity.Figure}).Parse(pageText))

// HTML writes the page as HTML.
func (p *Page) HTML(w io.Writer) error { return pageTemplate.Execute(w, p) }

// A mark is a position on a scale, in percent of its length.
type mark struct {
	At   float64
	Name string
}

// ends returns the ends of the scale of the bars as powers of ten. They enclose all values, with room for the
// smallest bar.
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

// At returns the position of a value on the scale.
func (b *Bars) At(v float64) float64 {
	begin, end := b.ends()
	return 100 * (math.Log10(max(v, math.Pow10(int(begin)))) - begin) / (end - begin)
}

// Width returns the distance between two values.
func (b *Bars) Width(from, to float64) float64 { return b.At(to) - b.At(from) }

// top returns the end of the scale of the lines: 1, 2 or 5 times a power of ten.
func (l *Lines) top() float64 {
	most := 0.0
	for _, c := range l.Curves {
		for _, v := range c.Values {
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

// Scale returns the marks at the side of the lines.
func (l *Lines) Scale() []mark {
	var marks []mark
	for _, part := range []float64{0, 0.25, 0.5, 0.75, 1} {
		marks = append(marks, mark{100 - 100*part, short(part * l.top())})
	}
	return marks
}

// Places returns the marks under the lines.
func (l *Lines) Places() []mark {
	var marks []mark
	for i, name := range l.Marks {
		marks = append(marks, mark{l.X(i), name})
	}
	return marks
}

// X returns the position of a mark from the left.
func (l *Lines) X(i int) float64 { return 4 + 92*float64(i)/float64(max(len(l.Marks)-1, 1)) }

// Y returns the position of a value from the top.
func (l *Lines) Y(v float64) float64 { return 100 - 100*v/l.top() }

// Beside returns the position of a mark for one of the curves, shifted so the curves' spreads do not overlap.
func (l *Lines) Beside(curve, i int) float64 {
	return l.X(i) + 0.8*(float64(curve)-float64(len(l.Curves)-1)/2)
}

// colors is the number of colors for curves.
const colors = 8

// Color returns the number of a curve's color.
func (l *Lines) Color(curve int) int { return curve % colors }

// Path returns a curve as an SVG path.
func (l *Lines) Path(curve int) string {
	path := ""
	for i, v := range l.Curves[curve].Values {
		path += fmt.Sprintf("%c%.2f %.2f", "ML"[min(i, 1)], l.Beside(curve, i), l.Y(v.Median))
	}
	return path
}
