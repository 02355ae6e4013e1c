package web

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/weirsync/weir/internal/status"
)

// Status is the answer of /api/status. The page shows the same. Unknown times are omitted.
type Status struct {
	Job     string    `json:"job"`
	To      string    `json:"to"` // the database, without a password
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	Time    time.Time `json:"time"` // of this answer
	// NotReady is why /readyz answers 503; "": it answers 200.
	NotReady string `json:"not_ready"`
	// Stalled has the reasons why lines are not read or not written. The page shows the first one on top.
	Stalled []Stall `json:"stalled"`
	// RateSeconds is the period that all rates cover.
	RateSeconds float64 `json:"rate_seconds"`

	Counts
	Storage
	Flushes
	Reconnects int64  `json:"reconnects"`
	Kafka      *Kafka `json:"kafka,omitempty"`

	Files          *Files   `json:"files,omitempty"` // sources of known size; omitted if there are none
	Tables         []Table  `json:"tables"`
	Sources        []Source `json:"sources"`          // at most maxSources
	SourcesLeftOut int64    `json:"sources_left_out"` // how many are omitted
	Reasons        []Reason `json:"reasons"`          // of rejected lines
	RejectsAt      string   `json:"rejects_at"`       // the command that prints them, or the --rejects value that sends them elsewhere
	NotStored
}

// NotStored has the values of applied messages that are in no column.
type NotStored struct {
	NulledValues  map[string]int64 `json:"nulled_values,omitempty"` // that did not fit and were stored as NULL, by TABLE.COLUMN
	IgnoredFields map[string]int64 `json:"ignored_fields"`          // values without a column, by field: the first 100 fields, and other for the rest
	UnmetFields   []string         `json:"unmet_fields"`            // fields that options name and no message had, in words
}

// Storage is where messages are that are not committed.
type Storage struct {
	BufferBytes      int64 `json:"buffer_bytes"`
	BufferLimitBytes int64 `json:"buffer_limit_bytes"`
	SpoolBytes       int64 `json:"spool_bytes"`
	SpoolLimitBytes  int64 `json:"spool_limit_bytes"` // 0: no spool
}

// Flushes counts what was written to the database.
type Flushes struct {
	Number        int64            `json:"flushes"`
	Flushing      *Flushing        `json:"flushing,omitempty"`   // omitted if no flush is running
	LastCommit    time.Time        `json:"last_commit,omitzero"` // by this run or the one it resumes
	RecentFlushes []Flush          `json:"recent_flushes"`       // oldest first
	Retries       map[string]int64 `json:"retries"`              // of database calls, by reason
}

// A Stall is one reason.
type Stall struct {
	Reason string    `json:"reason"` // as in weir_stalled_seconds
	Text   string    `json:"text"`   // in words
	Since  time.Time `json:"since"`
}

// Counts are counts of what was read, by the run or from a source.
type Counts struct {
	Lines          int64     `json:"lines"`
	LinesPerSecond float64   `json:"lines_per_second"`
	Bytes          int64     `json:"bytes"`
	BytesPerSecond float64   `json:"bytes_per_second"`
	PendingLines   int64     `json:"pending_lines"` // read but not committed
	RejectedLines  int64     `json:"rejected_lines"`
	LastMessage    time.Time `json:"last_message,omitzero"` // when it was read
	// LagSeconds is the age of the last message by its timestamp; omitted if it has none.
	LagSeconds *float64 `json:"lag_seconds,omitempty"`
}

// A Table has the counts of a table.
type Table struct {
	Table         string           `json:"table"`
	RowsPerSecond float64          `json:"rows_per_second"`
	Messages      int64            `json:"messages"`
	Coalesced     int64            `json:"coalesced"` // messages folded into the row of an earlier one
	Inserted      int64            `json:"inserted"`
	Updated       int64            `json:"updated"`
	Unchanged     int64            `json:"unchanged"`
	Deleted       int64            `json:"deleted"`
	Rejected      map[string]int64 `json:"rejected"` // lines by reason
}

// A Reason counts the lines rejected for one reason, and has the place of the first one.
type Reason struct {
	Reason string `json:"reason"`
	Lines  int64  `json:"lines"`
	Source string `json:"source"`
	Line   int64  `json:"line"`
	Offset int64  `json:"offset"`
	// Element is the number of the message in an array, from 1; 0 if the line is no array.
	Element int `json:"element,omitempty"`
}

// A Source is a file, connection or partition.
type Source struct {
	Source      string `json:"source"`
	Kind        string `json:"kind"` // file, waiting, dialed, listening or partition
	Open        bool   `json:"open"` // it has not ended
	Connections int64  `json:"connections"`
	Counts
	// Of a file of known size: raw bytes, and the remaining time at the current rate.
	OffsetBytes int64    `json:"offset_bytes,omitempty"`
	SizeBytes   int64    `json:"size_bytes,omitempty"`
	SecondsLeft *float64 `json:"seconds_left,omitempty"`
	// Of a partition: records that are not committed.
	Topic      string `json:"topic,omitempty"`
	Partition  string `json:"partition,omitempty"`
	LagRecords *int64 `json:"lag_records,omitempty"`
}

// Files is the progress with the files. Sizes are raw bytes of all files, including those not begun.
type Files struct {
	Number      int64 `json:"number"`
	Ended       int64 `json:"ended"`
	OffsetBytes int64 `json:"offset_bytes"`
	SizeBytes   int64 `json:"size_bytes"`
}

// A Flush is a finished flush.
type Flush struct {
	Time     time.Time `json:"time"`
	Seconds  float64   `json:"seconds"`
	Rows     int64     `json:"rows"`
	Messages int64     `json:"messages"`
}

// Flushing is the current flush.
type Flushing struct {
	Since time.Time `json:"since"`
	Rows  int64     `json:"rows"`
	Sent  int64     `json:"rows_sent"` // rows sent to the database so far
	// Search says how far the search for rejected messages has come.
	Search string `json:"search,omitempty"`
}

// Kafka has the counts of partitions.
type Kafka struct {
	LagRecords int64 `json:"lag_records"` // of all partitions
	Partitions int64 `json:"partitions"`  // being read
	// GroupPartitions is how many partitions the consumer group divides among its members; 0 without a group.
	GroupPartitions int64 `json:"group_partitions"`
	WaitingForGroup bool  `json:"waiting_for_group"` // the run is not, or no longer, a member
	FetchErrors     int64 `json:"fetch_errors"`
	Rebalances      int64 `json:"rebalances"`
	Fenced          int64 `json:"fenced"` // flushes fenced by another member of the group
}

// maxSources is the maximum number of sources in a status.
const maxSources = 200

var kinds = map[status.Kind]string{status.File: "file", status.Waiting: "waiting", status.Dialed: "dialed", status.Listening: "listening", status.Partition: "partition"}

func (s *Site) serveStatus(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(s.status()) // an error means that the client has left
}

// status returns the current status.
func (s *Site) status() *Status {
	did, now := s.Progress.Snapshot(), time.Now()
	at := sampleOf(&did, now)
	since := s.rates.since(at, did.Start)
	over := max(now.Sub(since.at).Seconds(), 1e-3)
	st := &Status{Job: s.Job, To: s.To, Version: s.Version, Started: did.Start.UTC(), Time: now.UTC(), NotReady: did.NotReady(), RateSeconds: over,
		Counts:  Counts{Lines: did.Lines, Bytes: did.Bytes, PendingLines: did.Pending, RejectedLines: did.Rejected},
		Storage: Storage{did.Buffer, s.BufferLimit, did.Spool, s.SpoolLimit},
		Flushes: Flushes{Number: did.Batches, LastCommit: did.LastCommit.UTC(), RecentFlushes: []Flush{}, Retries: did.Retries}, Reconnects: did.Reconnects,
		Stalled: []Stall{}, Tables: []Table{}, Sources: []Source{}, Reasons: []Reason{}, RejectsAt: s.RejectsAt, NotStored: NotStored{did.Notes[status.Nulled], some(did.Notes[status.Ignored]), []string{}}}
	for _, stall := range did.Stalls() {
		st.Stalled = append(st.Stalled, Stall{string(stall.Cause), stall.Text, stall.Since.UTC()})
	}
	if w := did.Writing; !w.Began.IsZero() {
		st.Flushing = &Flushing{w.Began.UTC(), int64(w.Rows), int64(w.Sent), w.Search()}
	}
	if f := &did.Files; f.Size > 0 {
		st.Files = &Files{int64(f.Number), int64(f.Ended), f.Offset, f.Size}
	}
	if s.Unmet != nil {
		st.UnmetFields = append(st.UnmetFields, s.Unmet()...)
	}
	st.rest(read{at.lines, at.bytes, 0}, read{since.lines, since.bytes, 0}, over, did.LastMessage, did.FeedTime)
	for _, f := range s.Progress.Recent() {
		st.RecentFlushes = append(st.RecentFlushes, Flush{f.At.UTC(), f.Took.Seconds(), int64(f.Rows), f.Messages})
	}
	for i := range did.Reasons {
		r := &did.Reasons[i]
		st.Reasons = append(st.Reasons, Reason{string(r.First.Reason), r.Count, r.Source, r.First.Line, r.First.Offset, r.First.Element})
	}
	slices.SortStableFunc(st.Reasons, func(a, b Reason) int { return cmp.Compare(b.Lines, a.Lines) })
	for i := range did.Tables {
		t := &did.Tables[i]
		st.Tables = append(st.Tables, Table{t.Name, perSecond(at.rows[i]-since.table(i), over), t.Messages, t.Coalesced,
			t.Inserted, t.Updated, t.Unchanged, t.Deleted, some(t.Rejected)})
	}
	if did.Group.Partitions > 0 {
		st.kafka(&did)
	}
	for i := range did.Lanes {
		l := &did.Lanes[i]
		if l.Kind == status.Partition {
			st.kafka(&did).LagRecords += l.Lag
		}
		if i < maxSources {
			st.Sources = append(st.Sources, sourceOf(l, &since, over))
		} else {
			st.SourcesLeftOut++
		}
	}
	return st
}

// kafka returns the counts of partitions.
func (st *Status) kafka(did *status.Snapshot) *Kafka {
	if st.Kafka == nil {
		st.Kafka = &Kafka{Partitions: int64(did.OpenPartitions()), GroupPartitions: int64(did.Group.Partitions), WaitingForGroup: !did.Group.Waiting.IsZero(),
			FetchErrors: did.FailedFetches, Rebalances: did.Group.Rebalances, Fenced: did.Group.Fenced}
	}
	return st.Kafka
}

func sourceOf(l *status.LaneState, begin *sample, over float64) Source {
	since, known := begin.sources[l.Source] // otherwise the offset may be a checkpoint's
	s := Source{Source: l.Source, Kind: kinds[l.Kind], Open: l.Open, Connections: int64(l.Connections), Topic: l.Topic, Partition: l.Number,
		Counts:      Counts{Lines: l.Lines, Bytes: l.Bytes, PendingLines: l.Pending, RejectedLines: l.Rejected},
		OffsetBytes: l.Offset, SizeBytes: l.Size}
	s.rest(read{l.Lines, l.Bytes, l.Offset}, since, over, l.LastMessage, l.FeedTime)
	if read := perSecond(l.Offset-since.offset, over); known && l.Size > l.Offset && read > 0 && l.Kind == status.File {
		left := float64(l.Size-l.Offset) / read
		s.SecondsLeft = &left
	}
	if l.Kind == status.Partition {
		s.LagRecords = &l.Lag
	}
	return s
}

// rest adds rates and times.
func (c *Counts) rest(now, since read, over float64, lastMessage, feedTime time.Time) {
	c.LinesPerSecond, c.BytesPerSecond = perSecond(now.lines-since.lines, over), perSecond(now.bytes-since.bytes, over)
	c.LastMessage = lastMessage.UTC()
	if !feedTime.IsZero() {
		lag := status.Lag(feedTime).Seconds()
		c.LagSeconds = &lag
	}
}

// perSecond returns a rate. n may be negative if a source is read again.
func perSecond(n int64, over float64) float64 { return float64(max(0, n)) / over }

// some returns the reasons whose count is not 0.
func some[K ~string](counts map[K]int64) map[string]int64 {
	out := map[string]int64{}
	for reason, n := range counts {
		if n > 0 {
			out[string(reason)] = n
		}
	}
	return out
}
