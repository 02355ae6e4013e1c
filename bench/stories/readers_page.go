package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/weirsync/weir/bench/report"
	"github.com/weirsync/weir/internal/quantity"
)

// Page is the result for people.
func (r *ReadersResult) Page() *report.Page {
	p := &report.Page{
		Measured: fmt.Sprintf("%s, %s, %s of %d columns of text. Each number of readers asks each query for %s, each reader on a connection of its own; weir updates random rows in flushes of a second, synchronous full. Medians of %s.",
			r.Database, quantity.Count(int64(r.Cores), "core"), quantity.Count(int64(r.Rows), "row"), readersColumns+1, r.For, quantity.Count(int64(r.Runs), "run")),
		Result: r.resultText(),
	}
	for q := range readerQueries {
		p.Sections = append(p.Sections, r.queries(readerQueries[q].name))
	}
	p.Sections = append(p.Sections, r.writes())
	return p
}

// wantedText names a rate of weir's.
func (w *ReadersWrite) wantedText() string {
	if w.Wanted == 0 {
		return "idle"
	}
	return quantity.Grouped(int64(w.Wanted)) + "/s"
}

func (r *ReadersResult) queries(name string) report.Section {
	s := report.Section{
		Title: "Queries for " + name,
		Note:  "Longest is the slowest of all queries. \"During flushes\" are queries that began and ended while one flush of weir's was running, without waiting for it.",
		Table: report.Table{Columns: []string{"weir writes", "readers", "queries/s", "of idle",
			"p50", "p99", "longest", "during flushes"}},
	}
	for i := range r.Writing {
		w := &r.Writing[i]
		for k := range w.Reads {
			read := &w.Reads[k]
			if read.Query != name {
				continue
			}
			s.Table.Rows = append(s.Table.Rows, []string{w.wantedText(), fmt.Sprint(read.Readers), spreadText(read.Rate), spreadText(read.Kept),
				latencyText(read.P50), latencyText(read.P99), latencyText(read.Longest), quantity.Grouped(int64(read.InFlight))})
		}
	}
	return s
}

// latencyText is a latency with the digits that count.
func latencyText(d time.Duration) string {
	if d < time.Millisecond {
		return quantity.Figure(float64(d)/float64(time.Microsecond)) + " µs"
	}
	return quantity.Figure(float64(d)/float64(time.Millisecond)) + " ms"
}

// writes are weir's own rates, and the log over time.
func (r *ReadersResult) writes() report.Section {
	s := report.Section{
		Title: "What weir writes meanwhile",
		Note:  "The size of SQLite's write-ahead log; of Postgres, what was written to its log since the first query.",
		Table: report.Table{Columns: []string{"weir writes", "updates/s", "flushes", "longest flush",
			"log at last"}},
	}
	for i := range r.Writing {
		w := &r.Writing[i]
		s.Table.Rows = append(s.Table.Rows, []string{w.wantedText(), spreadText(w.Reached), quantity.Grouped(int64(w.Flushes)), latencyText(w.Longest), quantity.Bytes(int64(w.WAL[len(w.WAL)-1].Median))})
	}
	return s
}

// resultText says what one reader keeps of its rate, and whether it waits.
func (r *ReadersResult) resultText() string {
	var kept []string
	for i := range r.Writing[1:] {
		w := &r.Writing[i+1]
		text := fmt.Sprintf("While weir writes %s updates/s, one reader keeps %s of its rate for %s, and %s for %s", quantity.Figure(w.Reached.Median),
			quantity.Figure(w.Reads[0].Kept.Median), w.Reads[0].Query, quantity.Figure(w.Reads[1].Kept.Median), w.Reads[1].Query)
		during, longest := 0, time.Duration(0)
		for k := range w.Reads {
			during, longest = during+w.Reads[k].InFlight, max(longest, w.Reads[k].Longest)
		}
		kept = append(kept, text+fmt.Sprintf("; %s were answered within a flush, and the longest took %s (the longest flush %s).",
			quantity.Count(int64(during), "read"), latencyText(longest), latencyText(w.Longest)))
	}
	return strings.Join(kept, " ")
}
