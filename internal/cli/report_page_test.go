package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/report"
	"github.com/weirsync/weir/internal/testcheck"
)

// TestReport_InABrowser looks at a report of figures that are the same in each run of the test: one of
// each kind of plot, with values at both ends of their scales.
func TestReport_InABrowser(t *testing.T) {
	b := newBrowser(t)
	dir := t.TempDir()
	at := func(values ...float64) (all []report.Spread) {
		for _, v := range values {
			all = append(all, report.Spread{Median: v, Least: v / 2, Most: v})
		}
		return all
	}
	var bars report.Bars
	for i, v := range at(3, 200, 12_345, 999_999, 1_000_000) {
		bars.Rows = append(bars.Rows, report.Bar{Name: fmt.Sprint("way ", i), Value: v})
	}
	bars.Unit = "messages/s"
	page := report.Page{Title: "A report", Measured: strings.Repeat("of a machine ", 20), Result: "One is faster.", Sections: []report.Section{{
		Title: "Ways", Note: "Longer is faster.", Bars: &bars,
		Table: report.Table{Columns: []report.Column{{Name: "way"}, {Name: "messages/s", Number: true}}, Rows: [][]string{{"way 0", "3"}, {strings.Repeat("a long name ", 9), "1,000,000"}}},
	}, {
		Title: "Sizes", Lines: &report.Lines{Unit: "ms", Over: "rows", Marks: []string{"1", "1,000", "1,000,000"}, Curves: []report.Curve{{Name: "a", Values: at(1, 5, 1000)}, {Name: "b", Values: at(0.1, 3, 999)}}},
	}}}
	f, err := os.Create(filepath.Join(dir, "report.html"))
	testcheck.OK(t, err)
	testcheck.OK(t, page.HTML(f))
	testcheck.OK(t, f.Close())
	site := "file://" + dir
	grounds := map[string]bool{}
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{360, 800, 1400} {
			b.as(width, scheme)
			b.open(site + "/report.html")
			if over := evaluate[int](b, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); over > 0 {
				t.Errorf("it is %d pixels wider than %d", over, width)
			}
			// A bar ends within its scale; the bracket of its spread is 3 pixels wide at least.
			if within := evaluate[int](b, `[...document.querySelectorAll(".bar")].filter(bar =>
				[...bar.children].every(part => part.getBoundingClientRect().right <= bar.getBoundingClientRect().right + 3)).length`); within != len(bars.Rows) {
				t.Errorf("at %d pixels %d of %d bars are within their scale", width, within, len(bars.Rows))
			}
			if smallest := evaluate[float64](b, `Math.min(...[...document.querySelectorAll("body *")].filter(e => e.innerText).map(e => parseFloat(getComputedStyle(e).fontSize)))`); smallest < 12 {
				t.Errorf("at %d pixels some text has %v", width, smallest)
			}
		}
		grounds[evaluate[string](b, "getComputedStyle(document.body).backgroundColor")] = true
	}
	if len(grounds) != 2 {
		t.Errorf("light and dark are %v", grounds)
	}
	for _, text := range []string{"One is faster.", "messages/s, logarithmic", "1,000,000", "way 4"} {
		if !strings.Contains(b.text(), text) {
			t.Errorf("%q is missing:\n%s", text, b.text())
		}
	}
	b.calm(site)
}
