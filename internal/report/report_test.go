package report_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/report"
	"github.com/weirsync/weir/internal/testcheck"
)

func TestSpreadOf(t *testing.T) {
	f := func(want report.Spread, values ...float64) {
		t.Helper()
		if have := report.SpreadOf(values); have != want {
			t.Errorf("%v: %v, want %v", values, have, want)
		}
	}
	f(report.Spread{Median: 5, Least: 5, Most: 5}, 5)
	f(report.Spread{Median: 2, Least: 1, Most: 9}, 9, 1, 2)
	f(report.Spread{Median: 2.5, Least: 1, Most: 9}, 9, 1, 2, 3)
}

// page is a report with everything that there is.
func page() *report.Page {
	return &report.Page{
		Title: "a report", Measured: "a <machine>", Result: "the first",
		Sections: []report.Section{{
			Title: "ways", Note: "how to read it",
			Bars: &report.Bars{Unit: "rows/s", Rows: []report.Bar{
				{Name: "slow", Value: report.Spread{Median: 100, Least: 10, Most: 1000}},
				{Name: "fast", Value: report.Spread{Median: 10_000, Least: 10_000, Most: 10_000}},
			}},
			Dots: &report.Dots{Unit: "rows/s", Over: "size", Marks: []string{"1", "2"}, Series: []report.Series{
				{Name: "one", Values: []report.Spread{{}, {Median: 300, Least: 200, Most: 350}}},
			}},
			Table: report.Table{Columns: []report.Column{{Name: "way"}, {Name: "rows/s", Number: true}}, Rows: [][]string{{"slow", "10"}, {"fast", "1,000"}}},
			Best:  2,
		}},
	}
}

func TestText(t *testing.T) {
	var out strings.Builder
	testcheck.NoError(t, page().Text(&out))
	want := "a <machine>\n\nways:\nWAY   ROWS/S\nslow  10\nfast  1,000\n\nthe first\n"
	if out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

func TestHTML(t *testing.T) {
	var out strings.Builder
	testcheck.NoError(t, page().HTML(&out))
	html := out.String()
	for _, want := range []string{
		"a &lt;machine&gt;",
		`class="fill" style="width: 50.00%"`,                 // 100 of 10,000, by decades from 1 on
		`class="spread" style="left: 25.00%; width: 50.00%"`, // 10 to 1,000
		`left: 0.00%">1<`,
		`left: 100.00%">10k<`,
		"rows/s, logarithmic",
		`style="top: 0.00%">500<`, // the scale of the lines ends there
		`V30.00"`,                 // 350 of 500
		`d="M75.00 40.00h0"`,      // 300 of 500, in the middle of the second mark's half
		`<td data-name="way">slow<td class="n" data-name="rows/s">10`,
		`<tr class="best"><td data-name="way">fast`,
		`<div class="row best"><div class="name"><span>fast`,
		`<th class="n">rows/s`,
	} {
		if !strings.Contains(html, want) {
			t.Errorf("%q is not in the page", want)
		}
	}
	p := page()
	p.Sections[0].Bars.Rows = append(p.Sections[0].Bars.Rows[1:], report.Bar{Name: "none"})
	out.Reset()
	if err := p.HTML(&out); err != nil || !strings.Contains(out.String(), `left: 0.00%">1k<`) || !strings.Contains(out.String(), `left: 100.00%">10k<`) {
		t.Errorf("the scale of 10,000 and nothing is not 1k to 10k: %v", err)
	}
	if strings.Contains(html, "ZgotmplZ") || strings.Contains(html, "://") {
		t.Error("the page has something that was filtered, or needs another file")
	}
}

// TestHTML_ColorsEachSeries: a path without a color is not seen.
func TestHTML_ColorsEachSeries(t *testing.T) {
	p := page()
	d := p.Sections[0].Dots
	for range 10 {
		d.Series = append(d.Series, d.Series[0])
	}
	var out strings.Builder
	testcheck.NoError(t, p.HTML(&out))
	for i := range d.Series {
		class := fmt.Sprintf("c%d", d.Color(i))
		if !strings.Contains(out.String(), `<path class="`+class+`"`) || !strings.Contains(out.String(), "."+class+" { stroke: var(--"+class+")") || strings.Count(out.String(), "--"+class+": #") != 2 {
			t.Errorf("series %d: the page has no color %s", i, class)
		}
	}
}
