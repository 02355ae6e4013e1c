package metrics

import (
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/status"
)

// A collector collects all counts of a run from one snapshot.
type collector struct {
	p   *status.Progress
	job prometheus.Labels
}

// Describe implements [prometheus.Collector]. It describes nothing, because labels differ between runs.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// emit sends a value of a metric with labels: names and values. What ends in _total is a counter, all else a gauge.
type emit func(name, help string, value float64, labels ...string)

// Collect implements [prometheus.Collector].
func (c *collector) Collect(out chan<- prometheus.Metric) {
	s := c.p.Snapshot()
	collect(&s, func(name, help string, value float64, labels ...string) {
		kind, names, values := prometheus.GaugeValue, []string(nil), []string(nil)
		if strings.HasSuffix(name, "_total") {
			kind = prometheus.CounterValue
		}
		for i := 0; i < len(labels); i += 2 {
			names, values = append(names, labels[i]), append(values, label(labels[i+1]))
		}
		out <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, names, c.job), kind, value, values...)
	})
}

func collect(s *status.Snapshot, emit emit) {
	for _, reason := range sink.RetryReasons {
		emit("weir_retries_total", "Database calls that were retried.", float64(s.Retries[reason]), "reason", reason)
	}
	for result, n := range map[string]int64{"ok": s.Executed.OK, "failed": s.Executed.Failed} {
		emit("weir_every_statements_total", "Statements of every that were executed, by result.", float64(n), "result", result)
	}
	emit("weir_reconnects_total", "Connections to a feed after a loss of one.", float64(s.Reconnects))
	emit("weir_sender_errors_total", "Senders disconnected because of an error.", float64(s.SenderErrors))
	for kind, counts := range s.Notes {
		byLabel := map[string]int64{} // two names may become the same label
		for name, n := range counts {
			byLabel[label(name)] += n
		}
		for name, n := range byLabel {
			emit("weir_notes_total", "Values and messages that were not stored as they came, by kind and name: 100 names of a kind, the rest are other.", float64(n), "kind", string(kind), "name", name)
		}
	}
	for _, cause := range status.Causes {
		since := s.Time
		if i := slices.IndexFunc(s.Stalled, func(st status.Stall) bool { return st.Cause == cause }); i >= 0 {
			since = s.Stalled[i].Since
		}
		emit("weir_stalled_seconds", "How long the run has been stalled, by reason; 0: it is not.", s.Time.Sub(since).Seconds(), "reason", string(cause))
	}
	w := s.Writing
	if w == nil {
		w = &status.Writing{Began: s.Time}
	}
	emit("weir_flush_running_seconds", "How long the current flush has run; 0: there is none.", s.Time.Sub(w.Began).Seconds())
	emit("weir_flush_rows", "Rows of the current flush; 0: there is none.", float64(w.Rows))
	emit("weir_flush_sent_rows", "Rows of the current flush that were sent to the database.", float64(w.Sent))
	emit("weir_spool_bytes", "Bytes of lines in the spool that are not committed.", float64(s.Spool))
	if s.SpoolLimit > 0 {
		emit("weir_spool_limit_bytes", "Maximum size of the spool in bytes.", float64(s.SpoolLimit))
	}
	emit("weir_buffer_bytes", "Memory used by the current batch.", float64(s.Buffer))
	emit("weir_buffer_limit_bytes", "Memory for batches.", float64(s.BufferLimit))
	emit("weir_last_commit_timestamp_seconds", "When the last batch was committed, by this run or an earlier one; 0 for never.", seconds(s.LastCommit.Time))
	for i := range s.Tables {
		t := &s.Tables[i]
		collectRejected(t.Rejected, emit, "table", t.Name)
		for result, n := range map[string]int64{"inserted": t.Inserted, "updated": t.Updated, "unchanged": t.Unchanged, "deleted": t.Deleted} {
			emit("weir_rows_total", "Rows of flushed batches by result.", float64(n), "result", result, "table", t.Name)
		}
		emit("weir_coalesced_messages_total", "Messages folded into the row of an earlier message of the batch.", float64(t.Coalesced), "table", t.Name)
	}
	if len(s.Tables) != 1 {
		collectRejected(s.Unassigned, emit)
	}
	collectSources(s, emit)
	if n := s.StoredRejects; n != nil {
		emit("weir_rejects_stored", "Rejected lines of the job in the database, from all runs.", float64(*n))
	}
	if k := s.Kafka; k != nil {
		emit("weir_kafka_partitions", "Partitions being read.", float64(k.Partitions))
		emit("weir_kafka_group_partitions", "Partitions that the consumer group divides among its members; 0 without a group.", float64(k.GroupPartitions))
		emit("weir_kafka_fetch_errors_total", "Fetches that failed.", float64(k.FetchErrors))
		emit("weir_kafka_rebalances_total", "Changes of the partitions assigned by the consumer group.", float64(k.Rebalances))
		emit("weir_kafka_fenced_total", "Flushes abandoned because another member of the group owns one of their partitions.", float64(k.Fenced))
	}
}

func collectRejected(lines map[feed.Reason]int64, emit emit, labels ...string) {
	for _, reason := range feed.Reasons {
		emit("weir_rejected_lines_total", "Lines rejected.", float64(lines[reason]), append(labels, "reason", string(reason))...)
	}
}

// collectSources sends the sums of all sources, or the counts of each source. It then adds up the files that are read
// to their ends.
func collectSources(s *status.Snapshot, emit emit) {
	rest := status.Source{Counts: s.Counts}
	for i := range s.Lanes {
		l := &s.Lanes[i]
		if l.LagRecords != nil {
			emit("weir_kafka_lag_records", "Records of a partition that are not in the database yet: from its committed offset to the partition's end.", float64(*l.LagRecords), "topic", l.Topic, "partition", l.Number)
		}
		switch {
		case l.Kind == status.File:
		case s.BySource:
			rest.Lines, rest.Bytes, rest.Pending = rest.Lines-l.Lines, rest.Bytes-l.Bytes, rest.Pending-l.Pending
			collectSource(l, emit, "source", l.Source)
		default: // one at most
			rest.Kind, rest.Connections = l.Kind, l.Connections
		}
	}
	switch {
	case !s.BySource:
		collectSource(&rest, emit)
	case rest.Lines > 0:
		collectLines(&rest.Counts, emit)
	}
}

func collectLines(c *status.Counts, emit emit, labels ...string) {
	emit("weir_read_lines_total", "Lines read.", float64(c.Lines), labels...)
	emit("weir_read_bytes_total", "Bytes read, after decompression.", float64(c.Bytes), labels...)
	emit("weir_pending_lines", "Lines read that are not committed.", float64(max(0, c.Pending)), labels...)
}

func collectSource(l *status.Source, emit emit, labels ...string) {
	collectLines(&l.Counts, emit, labels...)
	emit("weir_last_message_timestamp_seconds", "When the last message was read; 0 for never.", seconds(l.LastMessage.Time), labels...)
	if l.LagSeconds != nil {
		emit("weir_source_lag_seconds", "Age of the last message read, by its --time-field; missing if none has a time.", *l.LagSeconds, labels...)
	}
	switch l.Kind {
	case status.Dialed, status.Partition:
		emit("weir_connected", "1 if the feed is connected, else 0.", float64(l.Connections), labels...)
	case status.Listening:
		emit("weir_senders", "Connections that send lines.", float64(l.Connections), labels...)
	}
}

// seconds returns a time in Unix seconds; 0 for the zero time.
func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixNano()) / 1e9
}
