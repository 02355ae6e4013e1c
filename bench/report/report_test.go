package report_test

import (
	"strings"
	"testing"

	"github.com/weirsync/weir/bench/report"
	"github.com/weirsync/weir/internal/test/testcheck"
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

func TestText(t *testing.T) {
	var out strings.Builder
	page := report.Page{Measured: "a machine", Result: "the first", Sections: []report.Section{{Title: "ways", Note: "how to read it",
		Table: report.Table{Columns: []string{"way", "rows/s"}, Rows: [][]string{{"slow", "10"}, {"fast", "1,000"}}}}}}
	testcheck.NoError(t, page.Text(&out))
	want := "a machine\n\nways:\nhow to read it\n\nWAY   ROWS/S\nslow  10\nfast  1,000\n\nthe first\n"
	if out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
