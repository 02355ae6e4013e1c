// Package progress counts what a run does, by source and by table. The run writes the counts;
// metrics, the status line and the summary read them.
package progress

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

// Progress has the counts of one run. Any goroutine may call its methods and those of its lanes.
type Progress struct {
	mu        sync.Mutex // held for a moment
	state     Snapshot   // without Lanes, Tables and Pending
	lanes     []*Lane    // in the order in which they were opened
	tables    []Table
	committed int64            // of state.Lines
	fileSizes map[string]int64 // of the files that have not ended
	files     Files            // those that have
	recent    []Flushed        // the last ones, the oldest first
	probed    time.Time        // when the database was queried last, between flushes
	observers []func(Flush)
}

// A Snapshot is what a run has done so far, all at one moment.
type Snapshot struct {
	Start time.Time
	// Lanes are the sources that are being read, and all that have no end: connections,
	// stdin, files that are followed.
	Lanes  []LaneState
	Tables []Table // as New had them, and those that were added
	Files  Files
	Begun  bool // a source was opened

	Lines, Bytes int64 // that were read, of all sources
	Pending      int64 // lines of these that are not committed
	Rejects
	Stops         []Stop // the sources that were not read to their ends, when the run has ended
	Reconnects    int64
	SenderErrors  int64 // senders that were disconnected because of an error
	FailedFetches int64 // from Kafka
	Group         Group
	Unused        Unused
	LastMessage   time.Time // when it was read
	FeedTime      time.Time // of the last message that named one
	Buffer        int64     // bytes that the filling batch holds
	Spool         int64     // bytes in the spool that are not committed
	Flushes
	stalls
}

// Rejects counts the rejected lines.
type Rejects struct {
	Rejected   int64
	Reasons    []Reason              // in the order in which they came up
	Unassigned map[feed.Reason]int64 // lines that no table has rejected
}

// Flushes counts what was written to the database.
type Flushes struct {
	Batches    int64
	Retries    map[string]int64 // of calls of the database, by reason
	LastFlush  time.Duration    // that it took
	LastCommit time.Time        // by this run or one before
	Writing    Writing
}

// A Group is the consumer group that a run reads in.
type Group struct {
	Partitions int       // that it divides; 0: the run is in no group
	Waiting    time.Time // since when the run waits to be a member; zero: it is one
	Rebalances int64     // changes of the partitions that are assigned to the run
	Fenced     int64     // flushes that found that another member has one of their partitions
}

// OpenPartitions is how many partitions are read.
func (s *Snapshot) OpenPartitions() (n int) {
	for i := range s.Lanes {
		if s.Lanes[i].Kind == Partition && s.Lanes[i].Open {
			n++
		}
	}
	return n
}

// Unused is what the messages have that is not written, and what options name that no message has. Its maps and
// its slice are not changed.
type Unused struct {
	Mismatches map[string]int64 // values that were no object, or no array, where a path of the mapping steps into one, by path
	Lost       map[string]int64 // values that were not kept, by TABLE.COLUMN or TABLE.FIELD
	Nulled     map[string]int64 // values that their columns do not take, and that count as null, by TABLE.COLUMN
	Ignored    map[string]int64 // values that found no column, by field; up to the last flush
	named      []string         // the fields of Ignored that came first, and OtherFields
	Passed     int64            // messages that were passed over
	NoTable    map[string]int64 // messages that no table took, by what they have where the conditions of tables look
	Unmet      []Unmet
}

// Unmet is a field that an option names and no message has had.
type Unmet struct {
	Option string   // or the part of the config file
	Field  string   // its path
	Name   string   // the last part of that
	Beside []string // other fields that messages have there, and no option names
}

// NoteUnused has note update what was not used.
func (p *Progress) NoteUnused(note func(*Unused)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	note(&p.state.Unused)
}

// Of the fields that find no column, some are named one by one while the run lasts, and the rest together.
const (
	namedFields = 20
	OtherFields = "other"
)

// Ignored notes how many values each field had that found no column, and returns the fields that [Unused.ByField] names
// from now on.
func (p *Progress) Ignored(counts map[string]int64) (fresh []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	u := &p.state.Unused
	u.Ignored = counts
	for _, field := range slices.Sorted(maps.Keys(counts)) {
		if !slices.Contains(u.named, field) && len(u.named) >= namedFields {
			field = OtherFields
		}
		if !slices.Contains(u.named, field) {
			u.named, fresh = append(u.named, field), append(fresh, field)
		}
	}
	return fresh
}

// ByField is Ignored with a bounded number of names, the same ones for the whole run.
func (u *Unused) ByField() map[string]int64 {
	counts := map[string]int64{}
	for field, n := range u.Ignored {
		if !slices.Contains(u.named, field) {
			field = OtherFields
		}
		counts[field] += n
	}
	return counts
}

// A Reason has the rejected lines with one reason.
type Reason struct {
	Count  int64
	Source string      // of the first
	First  fold.Reject // but its Lane
	Alike  bool        // the others have its detail, too
}

// A Stop is where a source was left that was not read to its end.
type Stop struct {
	Source       string
	Line, Offset int64
	Read         float64 // the part of it; 0 where that is not known
	Resumes      bool    // a later run continues there
	Lost         int64   // lines that were read and not committed, and that weir cannot read again
}

// Stopped notes where a source was left. It is called once for each, when the run ends.
func (p *Progress) Stopped(s Stop) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Stops = append(p.state.Stops, s)
}

// noteReject counts a rejected line by its reason. p is locked.
func (p *Progress) noteReject(source string, r *fold.Reject) {
	i := slices.IndexFunc(p.state.Reasons, func(of Reason) bool { return of.First.Reason == r.Reason })
	if i < 0 {
		i = len(p.state.Reasons)
		p.state.Reasons = append(p.state.Reasons, Reason{Source: source, Alike: true})
	}
	of := &p.state.Reasons[i]
	of.Alike = of.Alike && (of.Count == 0 || of.First.Detail == r.Detail)
	if of.Count == 0 || of.Source == source && r.Offset < of.First.Offset { // the database's come later
		of.First = *r
		of.First.Text = bytes.Clone(r.Text)
	}
	of.Count++
}

// A Table has the counts of a table.
type Table struct {
	Name      string
	Messages  int64 // that were written, by way of rows
	Coalesced int64 // of these, those that were folded into a row that another message had begun
	Rows
	Expired  int64                 // rows that were removed because they are old
	Rejected map[feed.Reason]int64 // lines
}

// Rows counts what became of the rows of batches.
type Rows struct{ Inserted, Updated, Unchanged, Deleted int64 }

// Total is the number of rows.
func (r *Rows) Total() int64 { return r.Inserted + r.Updated + r.Unchanged + r.Deleted }

func (r *Rows) add(o Rows) {
	r.Inserted += o.Inserted
	r.Updated += o.Updated
	r.Unchanged += o.Unchanged
	r.Deleted += o.Deleted
}

// New returns counts at zero of a run that writes tables.
func New(tables ...string) *Progress {
	p := &Progress{probed: time.Now(), state: Snapshot{Start: time.Now(), Rejects: Rejects{Unassigned: reasons()}, Flushes: Flushes{Retries: map[string]int64{}}}}
	for _, r := range sink.RetryReasons {
		p.state.Retries[r] = 0
	}
	for _, name := range tables {
		p.AddTable(name)
	}
	return p
}

// AddTable adds a table behind the others.
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

// Snapshot returns what was done so far.
func (p *Progress) Snapshot() Snapshot {
	p.mu.Lock()
	s := p.state
	s.Pending = max(0, s.Lines-p.committed) // what is committed may be counted first
	s.Unassigned, s.Retries, s.Reasons = maps.Clone(s.Unassigned), maps.Clone(s.Retries), slices.Clone(s.Reasons)
	s.Stops, s.Tables = slices.Clone(s.Stops), slices.Clone(p.tables)
	for i := range s.Tables {
		s.Tables[i].Rejected = maps.Clone(s.Tables[i].Rejected)
	}
	s.Files = p.ofFiles()
	s.Lanes = make([]LaneState, len(p.lanes))
	lanes := make([]Lane, len(p.lanes))
	for i, l := range p.lanes {
		s.Lanes[i], lanes[i] = l.state, *l
		s.Lanes[i].Pending = max(0, l.state.Lines-l.committed)
	}
	p.mu.Unlock()
	for i := range lanes { // which ask the file system, or take locks
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

// Total returns the sum of the counts of all tables, with the rejected lines of none.
func (s *Snapshot) Total() Table {
	t := Table{Rejected: maps.Clone(s.Unassigned)}
	for i := range s.Tables {
		each := &s.Tables[i]
		t.Messages += each.Messages
		t.Coalesced += each.Coalesced
		t.add(each.Rows)
		t.Expired += each.Expired
		for r, n := range each.Rejected {
			t.Rejected[r] += n
		}
	}
	return t
}

// Lag returns how old a message is by its own time; 0 where it has none.
func Lag(at time.Time) time.Duration {
	if at.IsZero() {
		return 0
	}
	return max(0, time.Since(at)) // a feed's clock may be ahead
}

// NotReady returns why the run cannot read its feeds and write what they bring; "" if it can.
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

// A Flush is a batch that was written.
type Flush struct {
	Took   time.Duration
	Rows   int          // of all tables
	Tables []TableFlush // in the order in which they were added
}

// A TableFlush is what a flush did to a table.
type TableFlush struct {
	Messages, Coalesced int64
	Rows
}

// Flushed is a flush as [Progress.Recent] remembers it.
type Flushed struct {
	At       time.Time // when it was committed
	Took     time.Duration
	Rows     int
	Messages int64
}

// recentFlushes is how many flushes are remembered.
const recentFlushes = 120

// Recent returns the last flushes, the oldest first.
func (p *Progress) Recent() []Flushed {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.recent)
}

// Expired counts rows that were removed from a table because they are old.
func (p *Progress) Expired(table int, rows int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tables[table].Expired += rows
}

// Observe has f called for each flush, by the goroutine that flushes. It is for before the run.
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

// CommittedBefore notes when a run before this one committed last.
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

// DatabaseProbed notes the result of a query between flushes: a run that has nothing to
// write would not notice that it is unavailable. A lock is no reason, for it may be the run's own.
func (p *Progress) DatabaseProbed(err error) {
	e, failed := errors.AsType[*sink.Error](err)
	failed = failed && e.Class != sink.Permanent && e.Reason != "locked"
	p.mu.Lock()
	defer p.mu.Unlock()
	used := p.state.LastCommit.After(p.probed) // the run's own connection, since the last question
	p.probed = time.Now()
	if used || !failed {
		p.state.unreachable = Stall{}
		return
	}
	p.state.unreachable.failed(e)
}

// Rejected returns the number of lines rejected.
func (p *Progress) Rejected() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state.Rejected
}

// SetBuffer notes how many bytes the filling batch holds.
func (p *Progress) SetBuffer(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Buffer = bytes
}

// SetSpool notes how many bytes in the spool are not committed.
func (p *Progress) SetSpool(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Spool = bytes
}
