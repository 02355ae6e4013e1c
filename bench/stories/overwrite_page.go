package main

import (
	"fmt"
	"strings"

	"github.com/weirsync/weir/bench/ladder"
	"github.com/weirsync/weir/bench/report"
	"github.com/weirsync/weir/internal/quantity"
)

// Page is the result for people.
func (r *OverwriteResult) Page() *report.Page {
	p := &report.Page{}
	var measured, results []string
	for i := range r.Databases {
		t := &r.Databases[i]
		measured = append(measured, fmt.Sprintf("%s: memory of %s, %s.", t.Database, quantity.Bytes(t.Memory), t.held()))
		results = append(results, t.bend())
		p.Sections = append(p.Sections, t.section(), t.larger())
	}
	p.Measured = fmt.Sprintf("%s Rows of %d columns of text, flushes of %s, synchronous full. Medians of %s.", strings.Join(measured, " "),
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
		Note:  "At each size all ways write the same number of rows, from opening the database to closing it: rows with new keys behind all others, rows with new keys in between, and random rows of the table. The ratios are the time of each way, in times of that of new keys behind all others: the median of the runs, the least and the most.",
		Table: report.Table{Columns: append([]string{"of memory", "table", "insert in between", "overwrite",
			"a run writes"}, overwriteColumnsOf...)},
	}
	for i := range t.Sizes {
		z := &t.Sizes[i]
		row := []string{fmt.Sprintf("%g", z.Times), quantity.Bytes(z.Bytes)}
		row = append(row, spreadText(z.ScatteredRatio), spreadText(z.Ratio), quantity.Count(int64(z.Written), "row"))
		s.Table.Rows = append(s.Table.Rows, append(row, compared(&z.Insert, &z.Overwrite, z.Written)...))
	}
	return s
}

// overwriteColumnsOf are the columns of what compared returns.
var overwriteColumnsOf = []string{"insert/s", "overwrite/s", "an insert writes",
	"an overwrite writes", "and reads"}

// compared says what inserting and overwriting some rows cost.
func compared(insert, overwrite *ladder.Cost, rows int) []string {
	read := "none seen" // not every system tells
	if overwrite.Read > 0 {
		read = quantity.Bytes(overwrite.Read / int64(rows))
	}
	return []string{spreadText(insert.Rate), spreadText(overwrite.Rate), quantity.Bytes(insert.Written / int64(rows)), quantity.Bytes(overwrite.Written / int64(rows)), read}
}

// larger is what larger flushes give.
func (t *OverwriteTable) larger() report.Section {
	last := &t.Sizes[len(t.Sizes)-1]
	s := report.Section{
		Title: t.Database + ": larger flushes",
		Note:  fmt.Sprintf("All rows of a run in one flush, at %g times the memory. Rows are written in the order of their keys: the more of them a flush has, the more are in a page that is read and written once.", last.Times),
		Table: report.Table{Columns: append([]string{"rows of a flush", "ratio"}, overwriteColumnsOf...)},
	}
	for i := range t.Flushes {
		f := &t.Flushes[i]
		s.Table.Rows = append(s.Table.Rows, append([]string{quantity.Grouped(int64(f.Rows)), spreadText(f.Ratio)}, compared(&f.Insert, &f.Overwrite, f.Rows)...))
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
	first, last, flush := &t.Sizes[0], &t.Sizes[len(t.Sizes)-1], &t.Flushes[len(t.Flushes)-1]
	text := fmt.Sprintf("%s: overwriting takes %s times as long as inserting at %g times memory, and %s times at %g times", t.Database,
		quantity.Figure(first.Ratio.Median), first.Times, quantity.Figure(last.Ratio.Median), last.Times)
	bends := "it does not bend"
	for i := range t.Sizes {
		if z := &t.Sizes[i]; z.Ratio.Median >= bent*first.Ratio.Median {
			bends = fmt.Sprintf("it bends at %g", z.Times)
			break
		}
	}
	return fmt.Sprintf("%s; %s. In flushes of %s it takes %s times as long there.", text, bends, quantity.Count(int64(flush.Rows), "row"), quantity.Figure(flush.Ratio.Median))
}
