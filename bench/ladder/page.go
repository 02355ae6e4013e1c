package ladder

import (
	"fmt"
	"time"

	"github.com/weirsync/weir/bench/report"
	"github.com/weirsync/weir/internal/quantity"
)

// Page returns the result as a report.
func (r *Result) Page() *report.Page {
	return &report.Page{
		Measured: fmt.Sprintf("%s; %s: %s, %s, %s. Medians of %s.", r.Database, r.Feed,
			quantity.Count(int64(r.Messages), "message"), quantity.Count(int64(r.IDs), "id"), quantity.Count(int64(r.Columns), "column"), quantity.Count(int64(r.Runs), "run")),
		Result:   r.adviceText(),
		Sections: []report.Section{r.rungs(), r.settings()},
	}
}

// few messages take less time to write than opening a database.
const few = 1000

func (r *Result) rungs() report.Section {
	s := report.Section{
		Title: fmt.Sprintf("The first %s, written in seven ways", quantity.Count(int64(r.Work), "message")),
		Note:  "Each way writes the same messages, from opening the database to closing it.",
		Table: report.Table{Columns: []string{"way", "messages/s", "least", "most",
			"speed-up", "syncs", "written", "a power cut takes"}},
	}
	if r.Work < few {
		s.Title += " (few: opening and closing the database counts most; -for writes more)"
	}
	for i := range r.Rungs {
		g := &r.Rungs[i]
		name := fmt.Sprintf("%d %s", i+1, g.Name)
		s.Table.Rows = append(s.Table.Rows, []string{name, quantity.Figure(g.Rate.Median), quantity.Figure(g.Rate.Least), quantity.Figure(g.Rate.Most),
			quantity.Figure(g.Speedup), g.SyncsText(), g.WrittenText(), g.Lost})
	}
	return s
}

func (r *Result) settings() report.Section {
	s := report.Section{
		Note: "A flush is a transaction. The lag is a batch period and the longest flush after it, while weir reads as fast as it can.",
		Table: report.Table{Columns: []string{"synchronous", "batch period", "messages/s", "least", "most",
			"flushes", "syncs", "written", "lag at most", "a power cut takes"}},
	}
	for i := range r.Sweep {
		set := &r.Sweep[i]
		s.Table.Rows = append(s.Table.Rows, []string{string(set.Level), set.Period.String(), quantity.Figure(set.Rate.Median), quantity.Figure(set.Rate.Least), quantity.Figure(set.Rate.Most),
			fmt.Sprint(set.Flushes), set.SyncsText(), set.WrittenText(), lagText(set.Lag), set.Lost})
	}
	return s
}

func lagText(lag time.Duration) string { return lag.Round(time.Millisecond).String() }

// adviceText returns the advice as a sentence.
func (r *Result) adviceText() string {
	text, fastest := "No setting that was tried gives "+r.Wanted+".", 0.0
	if a := r.Advice; a != nil {
		fastest = a.Rate.Median
		text = fmt.Sprintf("For %s: --synchronous %s --batch-period %s (%s messages/s, at most %s behind; a power cut takes %s).",
			r.Wanted, a.Level, a.Period, quantity.Figure(a.Rate.Median), lagText(a.Lag), a.Lost)
	}
	runs := 0 // runs needed by settings that may be better
	for i := range r.Sweep {
		if s := &r.Sweep[i]; s.Flushes < enough && near*s.Rate.Median > fastest {
			runs = max(runs, (enough*r.Runs+s.Flushes-1)/max(s.Flushes, 1))
		}
	}
	if runs > 0 {
		text += fmt.Sprintf(" Settings with fewer than %d flushes do not count, and some of these may be better: try -runs %d, which makes enough of them, or a longer feed.", enough, runs)
	}
	return text
}
