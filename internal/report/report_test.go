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

// page is a report with every feature.
func page() *report.Page {
	return &report.Page{
		Title: "a report", Measured: "a <machine>", Result: "the first",
		Sections: []report.Section{{
			Title: "ways", Note: "how to read it",
			Bars: &report.Bars{Unit: "rows/s", Rows: []report.Bar{
				{Name: "slow", Value: report.Spread{Median: 100, Least: 10, Most: 1000}},
				{Name: "fast", Value: report.Spread{Median: 10_000, Least: 10_000, Most: 10_000}},
			}},
			Lines: &report.Lines{Unit: "rows/s", Over: "size", Marks: []string{"1", "2"}, Curves: []report.Curve{
				{Name: "one", Values: []report.Spread{{}, {Median: 300, Least: 200, Most: 350}}},
			}},
			Table: report.Table{Columns: []report.Column{{Name: "way"}, {Name: "rows/s", Number: true}}, Rows: [][]string{{"slow", "10"}, {"fast", "1,000"}}},
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
		`class="fill" style="width: 50.00%"`,                 // 100 of 10,000, on a scale of decades from 1
		`class="spread" style="left: 25.00%; width: 50.00%"`, // 10 to 1,000
		`left: 0.00%">1<`,
		`left: 100.00%">10k<`,
		"rows/s, logarithmic",
		`style="top: 0.00%">500<`, // the scale of the lines ends there
		`V30.00"`,                 // 350 of 500
		"L96.00 40.00",            // 300 of 500
		`<td class="n">1,000`,
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
		t.Error("the template filtered something, or the page is not self-contained")
	}
}

// TestHTML_ColorsEachCurve: a path without a color is invisible.
func TestHTML_ColorsEachCurve(t *testing.T) {
	p := page()
	l := p.Sections[0].Lines
	for range 10 {
		l.Curves = append(l.Curves, l.Curves[0])
	}
	var out strings.Builder
	testcheck.NoError(t, p.HTML(&out))
	for i := range l.Curves {
		class := fmt.Sprintf("c%d", l.Color(i))
		if !strings.Contains(out.String(), `<path class="`+class+`"`) || !strings.Contains(out.String(), "."+class+" { stroke: var(--"+class+")") || strings.Count(out.String(), "--"+class+": #") != 2 {
			t.Errorf("curve %d: the page has no color %s", i, class)
		}
	}
}
