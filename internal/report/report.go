// Package report formats measurements as text and as a self-contained page.
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
	Measured string // what was measured, and on which machine
	Result   string // one sentence; "" for none
	Sections []Section
}

// A Section is one comparison, as a table and, on the page, as a plot.
type Section struct {
	Title string
	Note  string // how to read it; only on the page
	Bars  *Bars  // nil for none
	Lines *Lines // nil for none
	Table Table
}

// A Spread summarizes the values of repeated runs.
type Spread struct {
	Median float64 `json:"median"`
	Least  float64 `json:"least"`
	Most   float64 `json:"most"`
}

// SpreadOf returns the spread of at least one value.
func SpreadOf(values []float64) Spread {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	median := sorted[middle]
	if len(sorted)%2 == 0 {
		median = (sorted[middle-1] + sorted[middle]) / 2
	}
	return Spread{median, sorted[0], sorted[len(sorted)-1]}
}

// Bars compare ways to do the same work, on a logarithmic scale that starts at the power of ten below the smallest.
type Bars struct {
	Unit string // "messages/s"
	Rows []Bar
}

// A Bar is one way and its value.
type Bar struct {
	Name  string
	Value Spread
}

// Lines show values for different settings.
type Lines struct {
	Unit   string // of the values; the scale starts at 0
	Over   string // what was varied
	Marks  []string
	Curves []Curve // each has a value for each mark
}

// A Curve is the values of one line.
type Curve struct {
	Name   string
	Values []Spread
}

// A Table is rows of cells.
type Table struct {
	Columns []Column
	Rows    [][]string
}

// A Column of numbers is right-aligned on the page.
type Column struct {
	Name   string
	Number bool
}

// Text writes the report as text.
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

// short formats a mark of a scale: 10k, 1M.
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
