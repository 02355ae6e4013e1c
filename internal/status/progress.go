package status

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/quantity"
	"github.com/weirsync/weir/internal/sink"
)

// Progress has the counts of one run. Its methods and its lanes' methods are safe for concurrent use.
type Progress struct {
	mu        sync.Mutex // only held briefly
	state     Snapshot   // without what Snapshot computes
	kafka     Kafka      // without LagRecords and Partitions
	waiting   Time       // since when the run has been waiting to become a member of its group; zero: it is one
	lanes     []*Lane    // in the order in which they were opened
	tables    []Table
	settled   int64            // lines that were committed, or never will be
	fileSizes map[string]int64 // files that have not ended
	files     Files            // files that have ended
	probed    Time             // when the database was last queried between flushes
	stalled
	history
	ended     bool
	observers []func(*Flush)
}

// New returns the counts, at zero, of a run that writes to tables.
func New(tables ...string) *Progress {
	p := &Progress{probed: now(), state: Snapshot{Started: now(), Flushes: Flushes{Retries: map[string]int64{}},
		Findings: Findings{Notes: Notes{}, Reasons: []Reason{}, Unmet: []string{}, Unassigned: map[feed.Reason]int64{}}}}
	for _, name := range tables {
		p.AddTable(name)
	}
	return p
}

// update changes the state.
func (p *Progress) update(change func(*Snapshot)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.state)
}

// Describe sets what the run is called, and its limits. It must be called before the run.
func (p *Progress) Describe(r Run) { p.state.Run = r }

// AddTable appends a table.
func (p *Progress) AddTable(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tables = append(p.tables, Table{Name: name, Rejected: map[feed.Reason]int64{}})
}

// Observe adds a function that the flushing goroutine calls for each flush. It must be called before the run.
func (p *Progress) Observe(f func(*Flush)) { p.observers = append(p.observers, f) }

// End records that the run has ended, so rates cover all of it.
func (p *Progress) End(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended = true; err != nil {
		p.state.Error = err.Error()
	}
}

// Flushing records that a flush begins. It lasts until [Progress.FlushEnded].
func (p *Progress) Flushing(rows int) {
	p.update(func(s *Snapshot) { s.Writing = &Writing{Began: now(), Rows: int64(rows), tried: now()} })
}

// FlushEnded records that the flush has ended.
func (p *Progress) FlushEnded() { p.update(func(s *Snapshot) { s.Writing = nil }) }

// Sent records how many rows of the current flush were sent to the database.
func (p *Progress) Sent(rows int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w := p.state.Writing; w != nil {
		w.Sent = min(int64(rows), w.Rows)
	}
}

// Searching records how far the current flush's search for rejected messages has come.
func (p *Progress) Searching(at sink.Searching) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w := p.state.Writing; w != nil {
		w.tried, w.Search = now(), fmt.Sprintf("searching for rejected rows: %s of %s written, %s rejected",
			quantity.Grouped(int64(at.Written)), quantity.Count(int64(at.Messages), "message"), quantity.Grouped(int64(at.Rejected)))
	}
}

// Flushed counts a committed flush. tables are in the order in which they were added.
func (p *Progress) Flushed(took time.Duration, tables []TableCounts, writesPerRow float64) {
	p.mu.Lock()
	all := TableCounts{}
	for i := range tables {
		p.tables[i].add(&tables[i])
		all.add(&tables[i])
	}
	flush := &Flush{At: now(), Seconds: took.Seconds(), Rows: all.Written(), Messages: all.Messages, BatchRows: all.Messages - all.Coalesced}
	p.state.Batches++
	p.state.WritesPerRow, p.state.LastFlush, p.state.LastCommit = writesPerRow, flush, flush.At
	p.trouble, p.unreachable = Stall{}, Stall{}
	p.mu.Unlock()
	for _, observe := range p.observers {
		observe(flush)
	}
}

// CommittedBefore records the time of an earlier run's last commit.
func (p *Progress) CommittedBefore(at time.Time) {
	p.update(func(s *Snapshot) {
		if at.After(s.LastCommit.Time) {
			s.LastCommit = Time{at}
		}
	})
}

// Executed counts an execution of the user's SQL.
func (p *Progress) Executed(ok bool) {
	p.update(func(s *Snapshot) {
		if ok {
			s.Executed.OK++
		} else {
			s.Executed.Failed++
		}
	})
}

// Retry counts a retried database call and notes the outage; nil ends the outage. See [sink.Retry].
func (p *Progress) Retry(e *sink.Error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e == nil {
		p.trouble, p.unreachable = Stall{}, Stall{}
		return
	}
	if slices.Contains(sink.RetryReasons, e.Reason) {
		p.state.Retries[e.Reason]++
	}
	p.trouble.failed(e)
	if p.state.Writing != nil {
		p.state.Writing.tried = now()
	}
	if !p.state.step.IsZero() {
		p.state.step = now()
	}
}

// DatabaseProbed records the result of a query between flushes: how many rejected lines the database keeps, or an error.
// Without it, a run that has nothing to write would not notice that the database is unavailable. A lock does not count,
// because it may be the run's own.
func (p *Progress) DatabaseProbed(storedRejects int64, err error) {
	e, failed := errors.AsType[*sink.Error](err)
	failed = failed && e.Class != sink.Permanent && e.Reason != "locked"
	p.mu.Lock()
	defer p.mu.Unlock()
	used := p.state.LastCommit.After(p.probed.Time) // by the run since the last probe
	p.probed = now()
	if err == nil {
		p.state.StoredRejects = &storedRejects
	}
	if used || !failed {
		p.unreachable = Stall{}
		return
	}
	p.unreachable.failed(e)
}

// failed sets the stall's reason. A stall that has begun keeps its start.
func (s *Stall) failed(e *sink.Error) {
	if s.Err == nil {
		s.Since = now()
	}
	s.Cause, s.Text, s.Err = DatabaseUnavailable, "waiting for the database ("+strings.ReplaceAll(e.Reason, "_", " ")+")", e
}

// Step records that the reader is alive. Step(false) records that it has ended.
func (p *Progress) Step(alive bool) {
	at := Time{}
	if alive {
		at = now()
	}
	p.update(func(s *Snapshot) { s.step = at })
}

// Stopped records how far a source was read. It is called once per source at the end of the run.
func (p *Progress) Stopped(stop Stop) {
	p.update(func(s *Snapshot) { s.Stops = append(s.Stops, stop) })
}

// noteReject counts a rejected line of a source by its reason. p must be locked.
func (p *Progress) noteReject(source *Source, r *fold.Reject) {
	i := slices.IndexFunc(p.state.Reasons, func(of Reason) bool { return of.Reason == r.Reason })
	if i < 0 {
		i = len(p.state.Reasons)
		p.state.Reasons = append(p.state.Reasons, Reason{Reason: r.Reason, Source: source.Source, Record: source.Kind == Partition, Alike: true})
	}
	of := &p.state.Reasons[i]
	of.Alike = of.Alike && (of.Lines == 0 || of.Detail == r.Detail)
	if of.Lines == 0 || of.Source == source.Source && r.Offset < of.Offset { // lines that the database rejects come later
		of.Line, of.Offset, of.Element, of.Detail, of.Text = r.Line, r.Offset, r.Element, r.Detail, bytes.Clone(r.Text)
	}
	of.Lines++
}

// Rejected returns the number of rejected lines.
func (p *Progress) Rejected() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state.Rejected
}

// SetBuffer sets how many bytes are in the batch that is being filled.
func (p *Progress) SetBuffer(bytes int64) { p.update(func(s *Snapshot) { s.Buffer = bytes }) }

// SetSpool sets how many bytes in the spool are not committed.
func (p *Progress) SetSpool(bytes int64) { p.update(func(s *Snapshot) { s.Spool = bytes }) }
