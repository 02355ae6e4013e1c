// Package status counts what a run does and describes it in one [Snapshot]: the run updates a [Progress], and the log,
// the status line, the summary, the page, the API and the metrics read snapshots of it.
package status

import (
	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/sink"
)

// Run is what a run is called, and its limits.
type Run struct {
	Job         string `json:"job"`
	To          string `json:"to"`   // the database, without a password
	Host        string `json:"host"` // the machine's name
	Version     string `json:"version"`
	Commit      string `json:"-"`
	BufferLimit int64  `json:"buffer_limit_bytes"`
	SpoolLimit  int64  `json:"spool_limit_bytes"` // 0: no spool
	RejectsAt   string `json:"rejects_at"`        // the command that prints the rejected lines, or the --rejects value that keeps none
	// IgnoredBy is the setting by which messages are ignored, and NoTable says why no table takes a message.
	IgnoredBy string `json:"-"`
	NoTable   string `json:"-"`
	// BySource labels the metrics of sources with the source. Files that are read to their ends are counted together.
	BySource bool `json:"-"`
}

// A Snapshot is the state of a run at one time, as /api/status answers it. Times are in UTC; unknown ones are omitted.
type Snapshot struct {
	Run
	Started Time    `json:"started"`
	Time    Time    `json:"time"`
	Seconds float64 `json:"seconds"`         // since Started
	Error   string  `json:"error,omitempty"` // that the run has ended with
	// NotReady is why /readyz answers 503; "": it answers 200.
	NotReady string  `json:"not_ready"`
	Stalled  []Stall `json:"stalled"` // in the order of Causes
	// RateSeconds is the period that all rates cover; the whole run once it has ended.
	RateSeconds float64 `json:"rate_seconds"`

	Counts
	TableCounts           // of all tables
	RowsPerSecond float64 `json:"rows_per_second"` // written
	Buffer        int64   `json:"buffer_bytes"`    // in the batch that is being filled
	Spool         int64   `json:"spool_bytes"`     // not committed
	Flushes
	Executed Executed `json:"every_statements"`
	Sources
	Tables []Table `json:"tables"` // the tables given to New, then the added ones
	Findings

	begun bool // a source was opened, or a group joined
	step  Time // when the reader last did anything, even if it found nothing to do; zero: it has ended
}

// Sources is the state of what is read.
type Sources struct {
	Reconnects   int64  `json:"reconnects"`    // connections to feeds after a loss of one
	SenderErrors int64  `json:"sender_errors"` // senders that were disconnected because of an error
	Kafka        *Kafka `json:"kafka,omitempty"`
	Files        Files  `json:"files,omitzero"`
	// Lanes are the open sources, and all sources without an end: connections, stdin, followed files.
	Lanes []Source `json:"sources"`
	Stops []Stop   `json:"stopped,omitempty"` // sources that were not read to their ends; set at the end of the run
}

// Findings are what was not stored as it came.
type Findings struct {
	Reasons    []Reason              `json:"reasons"` // of rejected lines, the most frequent first
	Unassigned map[feed.Reason]int64 `json:"-"`       // lines that were rejected before a table was known
	Notes      Notes                 `json:"notes"`
	// StoredRejects are the rejected lines of the job in the database, from all runs; nil until it has answered.
	StoredRejects *int64   `json:"-"`
	Unmet         []string `json:"unmet_fields"` // fields that settings name and no message had, and what is meant; must not be changed
}

// Counts are counts of what was read, by the run or from a source.
type Counts struct {
	Lines          int64    `json:"lines"`
	LinesPerSecond float64  `json:"lines_per_second"`
	Bytes          int64    `json:"bytes"`
	BytesPerSecond float64  `json:"bytes_per_second"`
	Committed      int64    `json:"committed_lines"`
	Pending        int64    `json:"pending_lines"` // read but not committed
	Rejected       int64    `json:"rejected_lines"`
	LastMessage    Time     `json:"last_message,omitzero"` // when it was read
	FeedTime       Time     `json:"feed_time,omitzero"`    // timestamp of the last message that has one
	LagSeconds     *float64 `json:"lag_seconds,omitempty"` // its age
}

// TableCounts count what was written.
type TableCounts struct {
	Messages  int64 `json:"messages"`  // written, as part of rows
	Coalesced int64 `json:"coalesced"` // messages folded into the row of an earlier message
	Rows
}

func (c *TableCounts) add(o *TableCounts) {
	c.Messages += o.Messages
	c.Coalesced += o.Coalesced
	c.Inserted += o.Inserted
	c.Updated += o.Updated
	c.Unchanged += o.Unchanged
	c.Deleted += o.Deleted
}

// Rows counts the rows of batches by result.
type Rows struct {
	Inserted  int64 `json:"inserted"`
	Updated   int64 `json:"updated"`
	Unchanged int64 `json:"unchanged"`
	Deleted   int64 `json:"deleted"`
}

// Written returns how many rows were changed.
func (r *Rows) Written() int64 { return r.Inserted + r.Updated + r.Deleted }

// A Table has the counts of a table.
type Table struct {
	Name          string  `json:"table"`
	RowsPerSecond float64 `json:"rows_per_second"` // written
	TableCounts
	Rejected map[feed.Reason]int64 `json:"rejected"` // lines
}

// RejectedLines returns the number of rejected lines.
func (t *Table) RejectedLines() (n int64) {
	for _, lines := range t.Rejected {
		n += lines
	}
	return n
}

// Kind tells how a source is read.
type Kind string

// The kinds of sources.
const (
	File      Kind = "file"      // to its end
	Waiting   Kind = "waiting"   // until more comes: stdin, a FIFO, a followed file
	Dialed    Kind = "dialed"    // weir connects to it
	Listening Kind = "listening" // others connect to weir
	Partition Kind = "partition" // of a Kafka topic
)

// A Source has the counts of a source.
type Source struct {
	Source      string `json:"source"`
	Kind        Kind   `json:"kind"`
	Open        bool   `json:"open"`        // it has not ended
	Connections int64  `json:"connections"` // open ones; at most one if weir connects
	Counts
	// Offset is how many raw bytes were read, and Size how many there are. Both are 0 if unknown.
	Offset      int64   `json:"offset_bytes,omitempty"`
	Size        int64   `json:"size_bytes,omitempty"`
	SecondsLeft float64 `json:"seconds_left,omitempty"` // at the rate so far; 0: unknown
	// Of a partition:
	Topic      string `json:"topic,omitempty"`
	Number     string `json:"partition,omitempty"`
	LagRecords *int64 `json:"lag_records,omitempty"` // that are not committed
}

// Files is the progress with files that are read to their ends, and with other sources of known size. Sizes are raw
// bytes.
type Files struct {
	Number      int64   `json:"number"`
	Ended       int64   `json:"ended"`
	Offset      int64   `json:"offset_bytes"`
	Size        int64   `json:"size_bytes"`             // of all files, including those not begun
	SecondsLeft float64 `json:"seconds_left,omitempty"` // at the rate so far; 0: unknown
	Before      int64   `json:"-"`                      // part of Offset that earlier runs have read
}

// Kafka has the counts of partitions.
type Kafka struct {
	LagRecords      int64 `json:"lag_records"`       // of all partitions, not committed
	Partitions      int64 `json:"partitions"`        // being read
	GroupPartitions int64 `json:"group_partitions"`  // that the consumer group divides among its members; 0 without a group
	WaitingForGroup bool  `json:"waiting_for_group"` // the run is not, or no longer, a member
	FetchErrors     int64 `json:"fetch_errors"`
	Rebalances      int64 `json:"rebalances"` // changes of the partitions assigned to the run
	Fenced          int64 `json:"fenced"`     // flushes that failed because another member had taken over a partition
}

// Flushes counts what was written to the database.
type Flushes struct {
	Batches int64 `json:"batches"`
	// WritesPerRow is how often each row was written, on average, in batches that filled their memory; 0: none did.
	WritesPerRow float64          `json:"writes_per_row,omitempty"`
	Writing      *Writing         `json:"flushing,omitempty"` // nil: no flush is running
	LastFlush    *Flush           `json:"last_flush,omitempty"`
	LastCommit   Time             `json:"last_commit,omitzero"` // by this run or an earlier one
	Retries      map[string]int64 `json:"retries"`              // of database calls, by reason
}

// Writing is the current flush.
type Writing struct {
	Began Time  `json:"since"` // does not change on retries
	Rows  int64 `json:"rows"`
	Sent  int64 `json:"rows_sent"` // sent to the database so far
	// Search says how far the search for messages that the database rejects has come; "": none is running.
	Search string `json:"search,omitempty"`
	tried  Time   // when it began, was last retried, or last wrote a piece of a search
}

// A Flush is a flush that was committed.
type Flush struct {
	At        Time    `json:"time"`
	Seconds   float64 `json:"seconds"`
	Rows      int64   `json:"rows"` // written
	Messages  int64   `json:"messages"`
	BatchRows int64   `json:"-"`
}

// Executed counts executions of the user's SQL (every).
type Executed struct {
	OK     int64 `json:"ok"`
	Failed int64 `json:"failed"`
}

// A Reason counts the lines rejected for one reason, and has the first one.
type Reason struct {
	Reason  feed.Reason `json:"reason"`
	Lines   int64       `json:"lines"`
	Source  string      `json:"source"`
	Line    int64       `json:"line"`
	Offset  int64       `json:"offset"`
	Record  bool        `json:"-"`                 // it is a record, and Offset counts records
	Element int         `json:"element,omitempty"` // the number of the message in an array, from 1; 0: the line is no array
	Detail  string      `json:"-"`
	Text    []byte      `json:"-"` // the beginning of the line
	Alike   bool        `json:"-"` // all lines have the same detail
}

// A Stop tells how far a source was read that was not read to its end.
type Stop struct {
	Source  string  `json:"source"`
	Line    int64   `json:"line"`
	Offset  int64   `json:"offset"`
	Read    float64 `json:"read,omitempty"`       // share of the source; 0 if unknown
	Resumes bool    `json:"resumes"`              // a later run resumes there
	Lost    int64   `json:"lost_lines,omitempty"` // read but not committed, and weir cannot read them again
}

// A Stall is why lines are not read or not written, and since when.
type Stall struct {
	Cause Cause       `json:"reason"`
	Text  string      `json:"text"` // in words, without the time
	Since Time        `json:"since"`
	Err   *sink.Error `json:"-"` // the last failure, if the cause is DatabaseUnavailable
}
