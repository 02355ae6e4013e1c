package main

import (
	"fmt"
	"time"

	"github.com/weirsync/weir/bench/report"
	"github.com/weirsync/weir/internal/quantity"
)

// Page is the result for people.
func (r *RoundtripsResult) Page() *report.Page {
	p := &report.Page{
		Measured: fmt.Sprintf("%s, through a proxy on this machine that adds a time to each round trip. %s, each a row in each table, with a foreign key to the row in the table before, which has a generated key. Medians of %s.",
			r.Database, quantity.Count(int64(r.Rows), "message"), quantity.Count(int64(r.Runs), "run")),
		Result: r.resultText(),
	}
	for i := range r.Trips {
		t := &r.Trips[i]
		if i == 0 || t.Tables != r.Trips[i-1].Tables {
			p.Sections = append(p.Sections, r.section(t.Tables))
		}
		s := &p.Sections[len(p.Sections)-1]
		s.Table.Rows = append(s.Table.Rows, []string{t.Delay.String(), t.Way, quantity.Grouped(int64(t.Messages)), quantity.Grouped(t.Trips),
			quantity.Figure(t.Rate.Median), quantity.Figure(t.Rate.Least), quantity.Figure(t.Rate.Most), t.tookText(r.Rows)})
	}
	return p
}

func (r *RoundtripsResult) section(tables int) report.Section {
	return report.Section{
		Title: "Messages of " + quantity.Count(int64(tables), "table"),
		Note: "A round trip begins when the client sends something after the server has answered all that it sent before. Each way writes on a connection that is open, to tables that exist, in one transaction. " +
			"Row by row stops when its time is up, and the messages that are left then are reckoned at its rate; messages and round trips are those that were counted.",
		Table: report.Table{Columns: []string{"added", "way", "messages", "round trips",
			"messages/s", "least", "most",
			quantity.Count(int64(r.Rows), "message") + " take"}},
	}
}

// tookText is how long messages take at the rate.
func (t *Roundtrip) tookText(messages int) string {
	return quantity.Figure(float64(messages)/t.Rate.Median) + " s"
}

// resultText compares the ways at the first number of tables and the second delay, and at the last of both.
func (r *RoundtripsResult) resultText() string {
	first, last := r.Trips[0], r.Trips[len(r.Trips)-1]
	second := first.Delay
	for i := range r.Trips {
		if d := r.Trips[i].Delay; d != first.Delay {
			second = d
			break
		}
	}
	text := r.sentence(first.Tables, second)
	if first.Tables != last.Tables || second != last.Delay {
		text += " " + r.sentence(last.Tables, last.Delay)
	}
	return text
}

func (r *RoundtripsResult) sentence(tables int, delay time.Duration) string {
	took := map[string]string{}
	var trips int64
	for i := range r.Trips {
		if t := &r.Trips[i]; t.Tables == tables && t.Delay == delay {
			took[t.Way], trips = t.tookText(r.Rows), t.Trips
		}
	}
	return fmt.Sprintf("%s of %s with %v added: row by row %s; by a statement for each table %s; by weir %s for the first batch of a run, and %s for each later one, which takes %s.",
		quantity.Count(int64(r.Rows), "message"), quantity.Count(int64(tables), "table"), delay, took[rowByRow], took[statements], took[firstBatch], took[laterBatch], quantity.Count(trips, "round trip"))
}
