// Package status counts what a run does, by source and by table. The run updates the counts. Metrics, the status line
// and the summary read them.
package status

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink"
)

// Progress has the counts of one run. Its methods and its lanes' methods are safe for concurrent use.
type Progress struct {
	mu        sync.Mutex // only held briefly
	state     Snapshot   // without Lanes, Tables and Pending
	lanes     []*Lane    // in the order in which they were opened
	tables    []Table
	committed int64            // part of state.Lines
	fileSizes map[string]int64 // files that have not ended
	files     Files            // files that have ended
	recent    []Flushed        // last flushes, oldest first
	probed    time.Time        // when the database was last queried between flushes
	observers []func(Flush)
}

// A Snapshot has the counts of a run at one time.
type Snapshot struct {
	Start time.Time
	// Lanes are the open sources, and all sources without an end: connections, stdin, followed files.
	Lanes  []LaneState
	Tables []Table // the tables given to New, then the added ones
	Files  Files
	Begun  bool // a source was opened

	Lines, Bytes int64 // read from all sources
	Pending      int64 // lines read but not committed
	Rejects
	Stops         []Stop // sources that were not read to their ends; set at the end of the run
	Reconnects    int64
	SenderErrors  int64 // senders that were disconnected because of an error
	FailedFetches int64 // from Kafka
	Group         Group
	Notes         Notes
	Unmet         []Unmet   // fields that options name and no message had; must not be changed
	LastMessage   time.Time // when it was read
	FeedTime      time.Time // timestamp of the last message that has one
	Buffer        int64     // bytes in the batch that is being filled
	Spool         int64     // bytes in the spool that are not committed
	Flushes
	stalls
}

// Rejects counts the rejected lines.
type Rejects struct {
	Rejected   int64
	Reasons    []Reason              // in the order in which they first occurred
	Unassigned map[feed.Reason]int64 // lines that were rejected before a table was known
}

// Flushes counts what was written to the database.
type Flushes struct {
	Batches    int64
	Retries    map[string]int64 // of database calls, by reason
	Executed   Executed
	LastFlush  time.Duration // duration of the last flush
	LastCommit time.Time     // by this run or an earlier one
	Writing    Writing
}

// Executed counts executions of the user's SQL (every).
type Executed struct{ OK, Failed int64 }

// A Group describes the consumer group of a run.
type Group struct {
	Partitions int       // of the whole group; 0: the run is in no group
	Waiting    time.Time // since when the run has been waiting to become a member; zero: it is one
	Rebalances int64     // changes of the partitions assigned to the run
	Fenced     int64     // flushes that failed because another member had taken over a partition
}

// OpenPartitions returns how many partitions are being read.
func (s *Snapshot) OpenPartitions() (n int) {
	for i := range s.Lanes {
		if s.Lanes[i].Kind == Partition && s.Lanes[i].Open {
			n++
		}
	}
	return n
}

// LagRecords returns how many records of Kafka are not committed; ok is false if the sources are not topics.
func (s *Snapshot) LagRecords() (n int64, ok bool) {
	for i := range s.Lanes {
		n += s.Lanes[i].Lag
	}
	return n, s.OpenPartitions() > 0 || s.Group.Partitions > 0
}

// A Reason counts the lines rejected for one reason.
type Reason struct {
	Count  int64
	Source string      // of the first line
	First  fold.Reject // without its Lane
	Alike  bool        // all lines have the same detail
}

// A Stop tells how far a source was read that was not read to its end.
type Stop struct {
	Source       string
	Line, Offset int64
	Read         float64 // share of the source; 0 if unknown
	Resumes      bool    // a later run resumes there
	Lost         int64   // lines that were read but not committed, and that weir cannot read again
}

// Stopped records how far a source was read. It is called once per source at the end of the run.
func (p *Progress) Stopped(s Stop) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Stops = append(p.state.Stops, s)
}

// noteReject counts a rejected line by its reason. p must be locked.
func (p *Progress) noteReject(source string, r *fold.Reject) {
	i := slices.IndexFunc(p.state.Reasons, func(of Reason) bool { return of.First.Reason == r.Reason })
	if i < 0 {
		i = len(p.state.Reasons)
		p.state.Reasons = append(p.state.Reasons, Reason{Source: source, Alike: true})
	}
	of := &p.state.Reasons[i]
	of.Alike = of.Alike && (of.Count == 0 || of.First.Detail == r.Detail)
	if of.Count == 0 || of.Source == source && r.Offset < of.First.Offset { // lines that the database rejects come later
		of.First = *r
		of.First.Text = bytes.Clone(r.Text)
	}
	of.Count++
}

// A Table has the counts of a table.
type Table struct {
	Name      string
	Messages  int64 // written, as part of rows
	Coalesced int64 // messages folded into the row of an earlier message
	Rows
	Rejected map[feed.Reason]int64 // lines
}

// Rows counts the rows of batches by result.
type Rows struct{ Inserted, Updated, Unchanged, Deleted int64 }

// Total returns the number of rows.
func (r *Rows) Total() int64 { return r.Inserted + r.Updated + r.Unchanged + r.Deleted }

func (r *Rows) add(o Rows) {
	r.Inserted += o.Inserted
	r.Updated += o.Updated
	r.Unchanged += o.Unchanged
	r.Deleted += o.Deleted
}

// New returns the counts, at zero, of a run that writes to tables.
func New(tables ...string) *Progress {
	p := &Progress{probed: time.Now(), state: Snapshot{Start: time.Now(), Notes: Notes{}, Rejects: Rejects{Unassigned: reasons()}, Flushes: Flushes{Retries: map[string]int64{}}}}
	for _, r := range sink.RetryReasons {
		p.state.Retries[r] = 0
	}
	for _, name := range tables {
		p.AddTable(name)
	}
	return p
}

// AddTable appends a table.
func (p *Progress) AddTable(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tables = append(p.tables, Table{Name: name, Rejected: reasons()})
}

func reasons() map[feed.Reason]int64 {
	m := map[feed.Reason]int64{}
	for _, r := range feed.Reasons {
		m[r] = 0
	}
	return m
}

// Snapshot returns the current counts.
func (p *Progress) Snapshot() Snapshot {
	p.mu.Lock()
	s := p.state
	s.Pending = max(0, s.Lines-p.committed) // committed lines may be counted first
	s.Unassigned, s.Retries, s.Reasons = maps.Clone(s.Unassigned), maps.Clone(s.Retries), slices.Clone(s.Reasons)
	s.Stops, s.Tables = slices.Clone(s.Stops), slices.Clone(p.tables)
	for i := range s.Tables {
		s.Tables[i].Rejected = maps.Clone(s.Tables[i].Rejected)
	}
	s.Notes = s.Notes.clone()
	s.Files = p.ofFiles()
	s.Lanes = make([]LaneState, len(p.lanes))
	lanes := make([]Lane, len(p.lanes))
	for i, l := range p.lanes {
		s.Lanes[i], lanes[i] = l.state, *l
		s.Lanes[i].Pending = max(0, l.state.Lines-l.committed)
	}
	p.mu.Unlock()
	for i := range lanes { // they query the file system or take locks
		to := &s.Lanes[i]
		to.Offset, to.Size = lanes[i].located()
		s.Files.Offset += to.Offset
		s.Files.Size += to.Size
		s.Files.Before += min(lanes[i].start, to.Offset)
		if lag := lanes[i].lag; lag != nil {
			to.Lag = lag()
		}
		if connected := lanes[i].connected; connected != nil && to.Open && connected() {
			to.Connections = 1
		}
	}
	return s
}

// Total returns the sums of all tables, including lines that no table rejected.
func (s *Snapshot) Total() Table {
	t := Table{Rejected: maps.Clone(s.Unassigned)}
	for i := range s.Tables {
		each := &s.Tables[i]
		t.Messages += each.Messages
		t.Coalesced += each.Coalesced
		t.add(each.Rows)
		for r, n := range each.Rejected {
			t.Rejected[r] += n
		}
	}
	return t
}

// Lag returns the age of a message by its timestamp; 0 if that is zero.
func Lag(at time.Time) time.Duration {
	if at.IsZero() {
		return 0
	}
	return max(0, time.Since(at)) // a feed's clock may be ahead
}

// NotReady returns why the run cannot read its sources or write to the database; "" if it can.
func (s *Snapshot) NotReady() string {
	if stalls := s.Stalls(); len(stalls) > 0 {
		return stalls[0].String()
	}
	if !s.Group.Waiting.IsZero() {
		return waitingForGroup
	}
	if !s.Begun {
		return "not reading yet"
	}
	for _, l := range s.Lanes {
		if (l.Kind == Dialed || l.Kind == Partition) && l.Connections == 0 && l.Open {
			return "not connected to " + l.Source
		}
	}
	return ""
}

// A Flush is a committed flush.
type Flush struct {
	Took   time.Duration
	Rows   int          // of all tables
	Tables []TableFlush // in the order of the tables
}

// A TableFlush is the result of a flush for a table.
type TableFlush struct {
	Messages, Coalesced int64
	Rows
}

// Flushed is a flush as [Progress.Recent] returns it.
type Flushed struct {
	At       time.Time // when it was committed
	Took     time.Duration
	Rows     int
	Messages int64
}

// recentFlushes is how many flushes are remembered.
const recentFlushes = 120

// Recent returns the last flushes, oldest first.
func (p *Progress) Recent() []Flushed {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.recent)
}

// Executed counts an execution of the user's SQL.
func (p *Progress) Executed(ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ok {
		p.state.Executed.OK++
	} else {
		p.state.Executed.Failed++
	}
}

// Observe adds a function that the flushing goroutine calls for each flush. It must be called before the run.
func (p *Progress) Observe(f func(Flush)) { p.observers = append(p.observers, f) }

// Flushed counts a flush.
func (p *Progress) Flushed(f Flush) {
	p.mu.Lock()
	done := Flushed{At: time.Now(), Took: f.Took, Rows: f.Rows}
	for i, t := range f.Tables {
		done.Messages += t.Messages
		p.tables[i].Messages += t.Messages
		p.tables[i].Coalesced += t.Coalesced
		p.tables[i].add(t.Rows)
	}
	p.state.Batches++
	p.state.LastFlush, p.state.LastCommit, p.state.trouble, p.state.unreachable = f.Took, done.At, Stall{}, Stall{}
	if len(p.recent) == recentFlushes {
		p.recent = slices.Delete(p.recent, 0, 1)
	}
	p.recent = append(p.recent, done)
	p.mu.Unlock()
	for _, observe := range p.observers {
		observe(f)
	}
}

// CommittedBefore records the time of an earlier run's last commit.
func (p *Progress) CommittedBefore(at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at.After(p.state.LastCommit) {
		p.state.LastCommit = at
	}
}

// Retry counts a retried database call and notes the outage; nil ends the outage. See [sink.Retry].
func (p *Progress) Retry(e *sink.Error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e == nil {
		p.state.trouble, p.state.unreachable = Stall{}, Stall{}
		return
	}
	if _, ok := p.state.Retries[e.Reason]; ok {
		p.state.Retries[e.Reason]++
	}
	p.state.trouble.failed(e)
	for _, at := range []*time.Time{&p.state.Writing.tried, &p.state.step} {
		if !at.IsZero() {
			*at = time.Now()
		}
	}
}

// DatabaseProbed records the result of a query between flushes. Without it, a run that has nothing to write would not
// notice that the database is unavailable. A lock does not count, because it may be the run's own.
func (p *Progress) DatabaseProbed(err error) {
	e, failed := errors.AsType[*sink.Error](err)
	failed = failed && e.Class != sink.Permanent && e.Reason != "locked"
	p.mu.Lock()
	defer p.mu.Unlock()
	used := p.state.LastCommit.After(p.probed) // by the run since the last probe
	p.probed = time.Now()
	if used || !failed {
		p.state.unreachable = Stall{}
		return
	}
	p.state.unreachable.failed(e)
}

// Rejected returns the number of rejected lines.
func (p *Progress) Rejected() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state.Rejected
}

// SetBuffer sets how many bytes are in the batch that is being filled.
func (p *Progress) SetBuffer(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Buffer = bytes
}

// SetSpool sets how many bytes in the spool are not committed.
func (p *Progress) SetSpool(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Spool = bytes
}
