// Package report prints what was measured.
package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// A Page is a report.
type Page struct {
	Measured string // what was measured, and where
	Result   string // in a sentence; "" for none
	Sections []Section
}

// A Section is one comparison, as a table.
type Section struct {
	Title string
	Note  string // how to read it; "" for none
	Table Table
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

// A Table is rows of cells, below the names of their columns.
type Table struct {
	Columns []string
	Rows    [][]string
}

// Text writes the page for a terminal.
func (p *Page) Text(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, p.Measured)
	for i := range p.Sections {
		table := &p.Sections[i].Table
		fmt.Fprintf(t, "\n%s:\n", p.Sections[i].Title)
		if note := p.Sections[i].Note; note != "" {
			fmt.Fprintf(t, "%s\n\n", note)
		}
		fmt.Fprintln(t, strings.ToUpper(strings.Join(table.Columns, "\t")))
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
