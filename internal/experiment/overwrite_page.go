package experiment

import (
	"fmt"
	"strings"

	"github.com/weirsync/weir/internal/quantity"
	"github.com/weirsync/weir/internal/report"
)

// Page is the result for people.
func (r *OverwriteResult) Page() *report.Page {
	p := &report.Page{Title: "weir: inserting and overwriting as a table outgrows memory"}
	var measured, results []string
	for i := range r.Databases {
		t := &r.Databases[i]
		measured = append(measured, fmt.Sprintf("%s: memory of %s, %s.", t.Database, quantity.Bytes(t.Memory), t.held()))
		results = append(results, t.bend())
		p.Sections = append(p.Sections, t.section())
	}
	p.Measured = fmt.Sprintf("%s Rows of %d columns of text with growing keys, flushes of %s, synchronous full. Medians of %s.", strings.Join(measured, " "),
		overwriteColumns+1, quantity.Count(overwriteRows, "row"), quantity.Count(int64(r.Runs), "run"))
	p.Result = strings.Join(results, " ")
	return p
}

func (t *OverwriteTable) held() string {
	if t.Held {
		return "which is all that its files have"
	}
	return "which is compared with, and not limited"
}

func (t *OverwriteTable) section() report.Section {
	s := report.Section{
		Title: t.Database + ": overwriting random rows",
		Note:  "At each size all three write the same number of rows, from opening the database to closing it. The ratios are the time of overwriting, in times of the inserting before it: the median of the runs, the least and the most.",
		Lines: &report.Lines{Unit: "times the time of inserting", Over: "size of the table, in times of the memory",
			Curves: []report.Curve{{Name: "overwrite"}, {Name: "overwrite with prefetch"}}},
		Table: report.Table{Columns: []report.Column{{Name: "of memory", Number: true}, {Name: "table", Number: true}, {Name: "ratio", Number: true}, {Name: "prefetched", Number: true},
			{Name: "insert/s", Number: true}, {Name: "overwrite/s", Number: true}, {Name: "prefetched/s", Number: true},
			{Name: "a run writes", Number: true}, {Name: "written by an insert", Number: true}, {Name: "by an overwrite", Number: true}}},
	}
	for i := range t.Sizes {
		z := &t.Sizes[i]
		s.Lines.Marks = append(s.Lines.Marks, fmt.Sprintf("%g", z.Times))
		s.Lines.Curves[0].Values = append(s.Lines.Curves[0].Values, z.Ratio)
		s.Lines.Curves[1].Values = append(s.Lines.Curves[1].Values, z.PrefetchedRatio)
		s.Table.Rows = append(s.Table.Rows, []string{fmt.Sprintf("%g", z.Times), quantity.Bytes(z.Bytes), spreadText(z.Ratio), spreadText(z.PrefetchedRatio),
			spreadText(z.Insert.Rate), spreadText(z.Overwrite.Rate), spreadText(z.Prefetched.Rate),
			quantity.Count(int64(z.Written), "row"), quantity.Bytes(z.Insert.Written / int64(z.Written)), quantity.Bytes(z.Overwrite.Written / int64(z.Written))})
	}
	return s
}

// spreadText is a median, and the least and the most.
func spreadText(s report.Spread) string {
	return fmt.Sprintf("%s (%s to %s)", quantity.Figure(s.Median), quantity.Figure(s.Least), quantity.Figure(s.Most))
}

// bent is how much more of inserting overwriting takes than at the smallest size, where the curve
// bends.
const bent = 1.5

// bend says where overwriting falls behind.
func (t *OverwriteTable) bend() string {
	first, last := &t.Sizes[0], &t.Sizes[len(t.Sizes)-1]
	text := fmt.Sprintf("%s: overwriting takes %s times as long as inserting at %g times memory, and %s times (with prefetch %s) at %g times", t.Database,
		quantity.Figure(first.Ratio.Median), first.Times, quantity.Figure(last.Ratio.Median), quantity.Figure(last.PrefetchedRatio.Median), last.Times)
	for i := range t.Sizes {
		if z := &t.Sizes[i]; z.Ratio.Median >= bent*first.Ratio.Median {
			return fmt.Sprintf("%s; it bends at %g.", text, z.Times)
		}
	}
	return text + "; it does not bend."
}
