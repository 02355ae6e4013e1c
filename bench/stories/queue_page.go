package main

import (
	"fmt"
	"time"

	"github.com/weirsync/weir/bench/ladder"
	"github.com/weirsync/weir/bench/report"
	"github.com/weirsync/weir/internal/quantity"
)

// Page is the result for people.
func (r *QueueResult) Page() *report.Page {
	p := &report.Page{
		Measured: fmt.Sprintf("A table of SQLite as a queue (one connection, explicit transactions, no VACUUM, WAL mode) and the log of weir's spool, in %s. Lines of %d bytes. Medians of %s.",
			r.Disk, len(queueLine), quantity.Count(int64(r.Runs), "run")),
		Result: r.resultText(),
	}
	for i := range r.Queues {
		if q := &r.Queues[i]; i == 0 || q.Request != r.Queues[i-1].Request {
			p.Sections = append(p.Sections, r.costs(q.Request, "Putting lines in: requests of "+quantity.Count(int64(q.Request), "line"),
				"At full a request is on the disk before the next one comes. At normal the spool syncs once a second, as under weir, and SQLite when it copies its log into the database; at off neither does.",
				func(q *QueueCost) *ladder.Cost { return &q.In }))
		}
	}
	return r.sectionsOfAll(p)
}

// sectionsOfAll adds those that requests of the last size are enough for.
func (r *QueueResult) sectionsOfAll(p *report.Page) *report.Page {
	last := r.Queues[len(r.Queues)-1].Request
	p.Sections = append(p.Sections, r.costs(last, fmt.Sprintf("Taking lines out, about %s at once", quantity.Grouped(takeLines)),
		"SQLite deletes them in the transaction in which it reads them. The spool only removes files whose lines are all taken: under weir, the position in it is part of the transaction that writes the lines to the database.",
		func(q *QueueCost) *ladder.Cost { return &q.Out }), r.kills())
	return p
}

// costs is a section about requests of one size.
func (r *QueueResult) costs(request int, title, note string, of func(q *QueueCost) *ladder.Cost) report.Section {
	s := report.Section{Title: title, Note: note,
		Table: report.Table{Columns: []string{"queue", "synchronous", "lines", "lines/s", "least", "most",
			"syncs", "written", "a power cut takes"}},
	}
	for i := range r.Queues {
		q := &r.Queues[i]
		if q.Request != request {
			continue
		}
		c := of(q)
		s.Table.Rows = append(s.Table.Rows, []string{q.Queue, string(q.Level), quantity.Grouped(int64(q.Lines)), quantity.Figure(c.Rate.Median), quantity.Figure(c.Rate.Least), quantity.Figure(c.Rate.Most),
			c.SyncsText(), c.WrittenText(), q.Lost})
	}
	return s
}

func (r *QueueResult) kills() report.Section {
	s := report.Section{
		Title: "Killed while it was filled",
		Note:  fmt.Sprintf("A process puts requests of %d lines into the queue and is killed (SIGKILL). The time is until the queue is open again; after it, all lines are taken out and compared.", killRequest),
		Table: report.Table{Columns: []string{"queue", "synchronous", "acknowledged", "found", "missing",
			"recovery", "least", "most"}},
	}
	for i := range r.Kills {
		k := &r.Kills[i]
		s.Table.Rows = append(s.Table.Rows, []string{k.Queue, string(k.Level), quantity.Grouped(int64(k.Acknowledged)), quantity.Grouped(int64(k.Found)), quantity.Grouped(int64(k.Missing)),
			secondsText(k.Recovery.Median), secondsText(k.Recovery.Least), secondsText(k.Recovery.Most)})
	}
	return s
}

func secondsText(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(10 * time.Microsecond).String()
}

// resultText compares the queues at full and normal.
func (r *QueueResult) resultText() string {
	text, missing := "", 0
	last := r.Queues[len(r.Queues)-1].Request
	for i := range r.Queues {
		q := &r.Queues[i]
		if q.Request == last && i%len(queueKinds) == 0 {
			other := &r.Queues[i+1]
			text += fmt.Sprintf("At synchronous %s, %s takes %s lines/s in and %s out, %s %s and %s. ", q.Level,
				q.Queue, quantity.Figure(q.In.Rate.Median), quantity.Figure(q.Out.Rate.Median), other.Queue, quantity.Figure(other.In.Rate.Median), quantity.Figure(other.Out.Rate.Median))
		}
	}
	for i := range r.Kills {
		missing += r.Kills[i].Missing
	}
	return text + fmt.Sprintf("After SIGKILL, %s of those acknowledged %s missing.", quantity.Count(int64(missing), "line"), map[bool]string{true: "is", false: "are"}[missing == 1])
}
