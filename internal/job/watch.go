package job

import (
	"fmt"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/source"
)

// watch has the fold look at how messages of partitions meet.
func (r *run) watch(lanes []string) {
	r.watches = nil
	if len(lanes) == 0 || !source.TraitsOf(lanes[0]).Records {
		return
	}
	if r.watches = []*fold.Watch{}; r.warned == nil {
		r.warned = map[string]bool{}
	}
	for i := range r.folders {
		r.watchTable(i)
	}
}

// watchTable is watch for one more table.
func (r *run) watchTable(i int) {
	t := r.table(i)
	w := &fold.Watch{Lanes: r.known > 1 && t.Fold.Version == "" && !r.warned[crossing(t)]}
	r.watches = append(r.watches, w)
	r.folders[i].Watch(w)
}

// What [run.warned] is kept by.
func crossing(t *Table) string { return "table " + t.Name }
func sparse(l *lane) string {
	topic, _, _ := source.Partition(l.name)
	return "topic " + topic
}

// watchColumns has the fold look for messages of a lane that are sparse, where that matters.
func (rd *reader) watchColumns(l *lane) {
	matters := l.begun.Compacted && !rd.warned[sparse(l)]
	for _, w := range rd.watches {
		w.Columns = matters
	}
}

// warn warns of what the fold has noted.
func (rd *reader) warn(l *lane) {
	for i, w := range rd.watches {
		if w.Met == nil {
			continue
		}
		met := w.Met
		w.Met = nil
		if met.Column != "" {
			rd.warned[sparse(l)] = true
			rd.watchColumns(l)
			l.log.Warn(fmt.Sprintf("%s is compacted, and its messages are partial: one of %s lacks %q, which an earlier one has. Compaction keeps only the last message of a key, "+
				"so that a later run with --from-start finds less: read messages before they are compacted (min.compaction.lag.ms), or set cleanup.policy=delete", sparse(l), met.Row, met.Column))
			continue
		}
		w.Lanes, rd.warned[crossing(rd.table(i))] = false, true
		rd.Log.Warn(fmt.Sprintf("table %q: messages of %s come from %s and from %s. Their order is that in which the two are read, not that in which they were sent: "+
			"send all messages of a key to one partition, or use --version-field (such as --record-fields timestamp=@timestamp --version-field @timestamp)",
			rd.table(i).Name, met.Row, partitionText(rd.set.lanes[met.First].lane), partitionText(l)))
	}
}

// partitionText is what a lane is, for people.
func partitionText(l *lane) string {
	topic, partition, _ := source.Partition(l.name)
	return fmt.Sprintf("partition %s of topic %s", partition, topic)
}
