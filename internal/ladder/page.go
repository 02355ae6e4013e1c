package ladder

import (
	"fmt"
	"time"

	"github.com/weirsync/weir/internal/quantity"
	"github.com/weirsync/weir/internal/report"
)

// Page returns the result as a report.
func (r *Result) Page() *report.Page {
	return &report.Page{
		Title: "weir: the ladder",
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
		Note:  "Each way writes the same messages, from opening the database to closing it. The fastest is marked.",
		Bars:  &report.Bars{Unit: "messages/s"},
		Table: report.Table{Columns: []report.Column{{Name: "way"}, {Name: "messages/s", Number: true}, {Name: "least", Number: true}, {Name: "most", Number: true},
			{Name: "speed-up", Number: true}, {Name: "syncs", Number: true}, {Name: "written", Number: true}, {Name: "a power cut takes"}}},
	}
	if r.Work < few {
		s.Title += " (few: opening and closing the database counts most; --for writes more)"
	}
	for i := range r.Rungs {
		g := &r.Rungs[i]
		name := fmt.Sprintf("%d %s", i+1, g.Name)
		if s.Best == 0 || g.Rate.Median > r.Rungs[s.Best-1].Rate.Median {
			s.Best = i + 1
		}
		s.Bars.Rows = append(s.Bars.Rows, report.Bar{Name: name, Value: g.Rate})
		s.Table.Rows = append(s.Table.Rows, []string{name, quantity.Figure(g.Rate.Median), quantity.Figure(g.Rate.Least), quantity.Figure(g.Rate.Most),
			quantity.Figure(g.Speedup), g.SyncsText(), g.WrittenText(), g.Lost})
	}
	return s
}

func (r *Result) settings() report.Section {
	s := report.Section{
		Title: "weir: all messages, with several settings",
		Note:  "A flush is a transaction. The lag is a batch period and the longest flush after it, while weir reads as fast as it can.",
		Dots:  &report.Dots{Unit: "messages/s", Over: "batch period"},
		Table: report.Table{Columns: []report.Column{{Name: "synchronous"}, {Name: "batch period", Number: true}, {Name: "messages/s", Number: true}, {Name: "least", Number: true}, {Name: "most", Number: true},
			{Name: "flushes", Number: true}, {Name: "syncs", Number: true}, {Name: "written", Number: true}, {Name: "lag at most", Number: true}, {Name: "a power cut takes"}}},
	}
	for _, period := range periods {
		s.Dots.Marks = append(s.Dots.Marks, period.String())
	}
	for _, level := range levels {
		s.Dots.Series = append(s.Dots.Series, report.Series{Name: "synchronous " + string(level)})
	}
	for i := range r.Sweep {
		set := &r.Sweep[i]
		if set == r.Advice {
			s.Best, s.Note = i+1, s.Note+" The advised setting is marked."
		}
		series := &s.Dots.Series[i/len(periods)]
		series.Values = append(series.Values, set.Rate)
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
		text += fmt.Sprintf(" Settings with fewer than %d flushes do not count, and some of these may be better: try --runs %d, which makes enough of them, or a longer feed.", enough, runs)
	}
	return text
}
