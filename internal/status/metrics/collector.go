package metrics

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirsync/weir/internal/status"
)

// A collector collects all counts of a run from one snapshot.
type collector struct {
	run   Run
	whole map[string]*prometheus.Desc // metrics of the run by name
	parts map[string]*prometheus.Desc // metrics with a label for the table or source, by name
}

// The metrics: of the run, or by table or source too.
var (
	ofRun = map[string]string{
		"weir_retries_total":                 "Database calls that were retried.",
		"weir_every_statements_total":        "Statements of every that were executed, by result.",
		"weir_reconnects_total":              "Reconnects to a feed.",
		"weir_sender_errors_total":           "Senders disconnected because of an error.",
		"weir_path_mismatches_total":         "Values that are not the object or array that a path of the mapping expects.",
		"weir_ignored_values_total":          "Values of fields that have no column, by field: 20 are named, the rest are other.",
		"weir_lost_values_total":             "Values that were not kept: values that the source omits when a key changes, and fields whose column has another source.",
		"weir_nulled_values_total":           "Values that do not fit their column, TABLE.COLUMN, and were stored as NULL.",
		"weir_stalled_seconds":               "How long the run has been stalled, by reason; 0: it is not.",
		"weir_flush_running_seconds":         "How long the current flush has run; 0: there is none.",
		"weir_flush_rows":                    "Rows of the current flush; 0: there is none.",
		"weir_flush_sent_rows":               "Rows of the current flush that were sent to the database.",
		"weir_spool_bytes":                   "Bytes of lines in the spool that are not committed.",
		"weir_spool_limit_bytes":             "Maximum size of the spool in bytes.",
		"weir_buffer_bytes":                  "Memory used by the current batch.",
		"weir_buffer_limit_bytes":            "Memory for batches.",
		"weir_last_commit_timestamp_seconds": "When the last batch was committed, by this run or an earlier one; 0 for never.",
	}
	ofTable = map[string]string{
		"weir_rejected_lines_total":     "Lines rejected.",
		"weir_rows_total":               "Rows of flushed batches by result.",
		"weir_coalesced_messages_total": "Messages folded into the row of an earlier message of the batch.",
	}
	ofSource = map[string]string{
		"weir_read_lines_total":               "Lines read.",
		"weir_read_bytes_total":               "Bytes read, after decompression.",
		"weir_pending_lines":                  "Lines read that are not committed.",
		"weir_last_message_timestamp_seconds": "When the last message was read; 0 for never.",
		"weir_source_lag_seconds":             "Age of the last message read, by its --time-field; missing if none has a time.",
		"weir_connected":                      "1 if the feed is connected, else 0.",
		"weir_senders":                        "Connections that send lines.",
	}
	ofKafka = map[string]string{
		"weir_kafka_lag_records":        "Records of a partition that are not in the database yet: from its committed offset to the partition's end.",
		"weir_kafka_partitions":         "Partitions being read.",
		"weir_kafka_group_partitions":   "Partitions that the consumer group divides among its members; 0 without a group.",
		"weir_kafka_fetch_errors_total": "Fetches that failed.",
		"weir_kafka_rebalances_total":   "Changes of the partitions assigned by the consumer group.",
		"weir_kafka_fenced_total":       "Flushes abandoned because another member of the group owns one of their partitions.",
	}
)

// Further labels of metrics.
var furtherLabels = map[string][]string{"weir_rejected_lines_total": {"reason"}, "weir_rows_total": {"result"}, "weir_retries_total": {"reason"}, "weir_every_statements_total": {"result"}, "weir_stalled_seconds": {"reason"},
	"weir_nulled_values_total":  {"column"},
	"weir_ignored_values_total": {"field"},
	"weir_kafka_lag_records":    {"topic", "partition"}}

func newCollector(r Run, job string) *collector {
	c := &collector{run: r, whole: map[string]*prometheus.Desc{}, parts: map[string]*prometheus.Desc{}}
	for by, metrics := range map[string]map[string]string{"": ofRun, "table": ofTable, "source": ofSource, "kafka": ofKafka} {
		for name, help := range metrics {
			labels := slices.Clone(furtherLabels[name])
			c.whole[name] = prometheus.NewDesc(name, help, labels, prometheus.Labels{jobLabel: job})
			if by == "table" || by == "source" {
				c.parts[name] = prometheus.NewDesc(name, help, append(labels, by), prometheus.Labels{jobLabel: job})
			}
		}
	}
	return c
}

// Describe implements [prometheus.Collector]. It describes nothing, because labels differ between runs.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// emit sends a value. part is the table or source, or "".
type emit func(name string, value float64, part string, labels ...string)

// Collect implements [prometheus.Collector].
func (c *collector) Collect(out chan<- prometheus.Metric) {
	emitted := func(kind prometheus.ValueType) emit {
		return func(name string, value float64, part string, labels ...string) {
			desc := c.whole[name]
			if part != "" {
				desc, labels = c.parts[name], append(labels, part)
			}
			for i := range labels {
				labels[i] = label(labels[i])
			}
			out <- prometheus.MustNewConstMetric(desc, kind, value, labels...)
		}
	}
	count, gauge := emitted(prometheus.CounterValue), emitted(prometheus.GaugeValue)
	s := c.run.Progress.Snapshot()
	for reason, n := range s.Retries {
		count("weir_retries_total", float64(n), "", reason)
	}
	count("weir_every_statements_total", float64(s.Executed.OK), "", "ok")
	count("weir_every_statements_total", float64(s.Executed.Failed), "", "failed")
	count("weir_reconnects_total", float64(s.Reconnects), "")
	count("weir_sender_errors_total", float64(s.SenderErrors), "")
	count("weir_path_mismatches_total", float64(s.Notes.Total(status.Mismatched)), "")
	count("weir_lost_values_total", float64(s.Notes.Total(status.Lost)), "")
	for name, kind := range map[string]status.NoteKind{"weir_nulled_values_total": status.Nulled, "weir_ignored_values_total": status.Ignored} {
		byLabel := map[string]int64{} // two names may become the same label
		for column, n := range s.Notes[kind] {
			byLabel[label(column)] += n
		}
		for column, n := range byLabel {
			count(name, float64(n), "", column)
		}
	}
	stalled := map[status.Cause]float64{}
	for _, st := range s.Stalls() {
		stalled[st.Cause] = time.Since(st.Since).Seconds()
	}
	for _, cause := range status.Causes {
		gauge("weir_stalled_seconds", stalled[cause], "", string(cause))
	}
	flushing := time.Duration(0)
	if !s.Writing.Began.IsZero() {
		flushing = time.Since(s.Writing.Began)
	}
	gauge("weir_flush_running_seconds", flushing.Seconds(), "")
	gauge("weir_flush_rows", float64(s.Writing.Rows), "")
	gauge("weir_flush_sent_rows", float64(s.Writing.Sent), "")
	gauge("weir_spool_bytes", float64(s.Spool), "")
	if c.run.SpoolLimit > 0 {
		gauge("weir_spool_limit_bytes", float64(c.run.SpoolLimit), "")
	}
	gauge("weir_buffer_bytes", float64(s.Buffer), "")
	gauge("weir_buffer_limit_bytes", float64(c.run.BufferLimit), "")
	gauge("weir_last_commit_timestamp_seconds", seconds(s.LastCommit), "")
	for i := range s.Tables {
		collectTable(&s.Tables[i], count)
	}
	if len(s.Tables) != 1 {
		for reason, n := range s.Unassigned {
			count("weir_rejected_lines_total", float64(n), "", string(reason))
		}
	}
	c.collectSources(&s, count, gauge)
	collectKafka(&s, count, gauge)
}

// collectKafka sends the counts of partitions, if the run reads Kafka.
func collectKafka(s *status.Snapshot, count, gauge emit) {
	some := s.Group.Partitions > 0
	for i := range s.Lanes {
		l := &s.Lanes[i]
		if l.Kind != status.Partition {
			continue
		}
		some = true
		gauge("weir_kafka_lag_records", float64(l.Lag), "", l.Topic, l.Number)
	}
	if some {
		gauge("weir_kafka_partitions", float64(s.OpenPartitions()), "")
		gauge("weir_kafka_group_partitions", float64(s.Group.Partitions), "")
		count("weir_kafka_fetch_errors_total", float64(s.FailedFetches), "")
		count("weir_kafka_rebalances_total", float64(s.Group.Rebalances), "")
		count("weir_kafka_fenced_total", float64(s.Group.Fenced), "")
	}
}

func collectTable(t *status.Table, count emit) {
	for reason, n := range t.Rejected {
		count("weir_rejected_lines_total", float64(n), t.Name, string(reason))
	}
	count("weir_rows_total", float64(t.Inserted), t.Name, "inserted")
	count("weir_rows_total", float64(t.Updated), t.Name, "updated")
	count("weir_rows_total", float64(t.Unchanged), t.Name, "unchanged")
	count("weir_rows_total", float64(t.Deleted), t.Name, "deleted")
	count("weir_coalesced_messages_total", float64(t.Coalesced), t.Name)
}

// collectSources sends the sums of all sources, or the counts of each source. It then adds up the files that are read
// to their ends.
func (c *collector) collectSources(s *status.Snapshot, count, gauge emit) {
	all := status.LaneState{Lines: s.Lines, Bytes: s.Bytes, Pending: s.Pending, FeedTime: s.FeedTime, LastMessage: s.LastMessage}
	lanes := slices.DeleteFunc(s.Lanes, func(l status.LaneState) bool { return l.Kind == status.File })
	if !c.run.BySource {
		for _, l := range lanes { // one at most
			all.Kind, all.Connections = l.Kind, l.Connections
		}
		collectSource(&all, "", count, gauge)
		return
	}
	for i := range lanes {
		l := &lanes[i]
		all.Lines, all.Bytes, all.Pending = all.Lines-l.Lines, all.Bytes-l.Bytes, all.Pending-l.Pending
		collectSource(l, l.Source, count, gauge)
	}
	if all.Lines > 0 {
		collectLines(&all, "", count, gauge)
	}
}

func collectLines(l *status.LaneState, name string, count, gauge emit) {
	count("weir_read_lines_total", float64(l.Lines), name)
	count("weir_read_bytes_total", float64(l.Bytes), name)
	gauge("weir_pending_lines", float64(max(0, l.Pending)), name)
}

func collectSource(l *status.LaneState, name string, count, gauge emit) {
	collectLines(l, name, count, gauge)
	gauge("weir_last_message_timestamp_seconds", seconds(l.LastMessage), name)
	if !l.FeedTime.IsZero() {
		gauge("weir_source_lag_seconds", status.Lag(l.FeedTime).Seconds(), name)
	}
	switch l.Kind {
	case status.Dialed, status.Partition:
		gauge("weir_connected", float64(l.Connections), name)
	case status.Listening:
		gauge("weir_senders", float64(l.Connections), name)
	}
}
