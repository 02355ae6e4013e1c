// Package report shows what was measured: as text, and as a page that needs no other file.
package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/weirsync/weir/internal/quantity"
)

// A Page is a report.
type Page struct {
	Title    string
	Measured string // what was measured, and where
	Result   string // in a sentence; "" for none
	Sections []Section
}

// A Section is one comparison, as a table and, on the page, as a plot.
type Section struct {
	Title string
	Note  string // how to read it; on the page alone
	Bars  *Bars  // nil for none
	Dots  *Dots  // nil for none
	Table Table
	Best  int // number of the row, and of the bar, that the page marks; from 1, 0 for none
}

// A Spread is what repeated runs gave.
type Spread struct {
	Median float64 `json:"median"`
	Least  float64 `json:"least"`
	Most   float64 `json:"most"`
}

// SpreadOf returns the spread of values, of which there is one at least.
func SpreadOf(values []float64) Spread {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	median := sorted[middle]
	if len(sorted)%2 == 0 {
		median = (sorted[middle-1] + sorted[middle]) / 2
	}
	return Spread{median, sorted[0], sorted[len(sorted)-1]}
}

// Bars compare ways of doing the same work, on a logarithmic scale that begins at the power of ten below the least.
type Bars struct {
	Unit string // "messages/s"
	Rows []Bar
}

// A Bar is one way, and its value.
type Bar struct {
	Name  string
	Value Spread
}

// Dots show values over something that was varied. No line connects medians: it would show trends in noise.
type Dots struct {
	Unit   string // of the values, on a scale that begins at 0
	Over   string // what was varied
	Marks  []string
	Series []Series // each has a value for each mark
}

// A Series is the values of one color.
type Series struct {
	Name   string
	Values []Spread
}

// A Table is rows of cells.
type Table struct {
	Columns []Column
	Rows    [][]string
}

// A Column of numbers is set to the right on the page.
type Column struct {
	Name   string
	Number bool
}

// Text writes the page for a terminal.
func (p *Page) Text(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, p.Measured)
	for i := range p.Sections {
		table := &p.Sections[i].Table
		names := make([]string, len(table.Columns))
		for c := range names {
			names[c] = strings.ToUpper(table.Columns[c].Name)
		}
		fmt.Fprintf(t, "\n%s:\n%s\n", p.Sections[i].Title, strings.Join(names, "\t"))
		for _, row := range table.Rows {
			fmt.Fprintln(t, strings.Join(row, "\t"))
		}
	}
	err := t.Flush()
	if p.Result != "" && err == nil {
		_, err = fmt.Fprintf(w, "\n%s\n", p.Result)
	}
	return err
}

// short is a mark of a scale: 10k, 1M.
func short(v float64) string {
	for _, unit := range []struct {
		of   float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if v >= unit.of {
			return quantity.Figure(v/unit.of) + unit.name
		}
	}
	return quantity.Figure(v)
}
