package settings

import (
	"net"
	"path/filepath"
	"slices"

	"github.com/weirsync/weir/internal/pipeline"
	"github.com/weirsync/weir/internal/source"
)

// checkRules rejects rules of the settings that cannot be combined.
func (b *builder) checkRules() {
	f := &b.Fold
	if max := b.Source.MaxLine; max < 1 || max > source.LimitMaxLine {
		b.fault("max-line", "--max-line %s: must be between 1B and %s", max, Size(source.LimitMaxLine))
	}
	keyless := b.Mapping == nil && f.Key != nil && len(f.Key) == 0 // tables of a file have their own keys
	b.faultIf(keyless && b.Kafka.TombstonesByKey != "" && b.Kafka.TombstonesByKey != noTombstones, "tombstones-by-key", "--tombstones-by-key needs a key, and --key none makes each message its own row: leave one of them out")
	columns := map[string]bool{}
	for _, m := range f.Merge {
		b.faultIf(columns[m.column], "merge", "--merge: the column %q is named twice", m.column)
		columns[m.column] = true
	}
}

// addsTo returns [mapping.TablePlan.AddsTo] of the first table with sums, else of the first table to which messages add rows.
func (b *builder) addsTo() (to string, sums bool) {
	tables := b.plan.Job.Plan.Tables
	if star := b.plan.Job.Plan.Star(); star != nil {
		tables = append(slices.Clip(tables), star)
	}
	for _, t := range tables {
		if !sums && t.AddsTo() != "" {
			to, sums = t.AddsTo(), t.Options.SumColumn() != ""
		}
	}
	return to, sums
}

// checkRepeats rejects settings that would add messages twice.
func (b *builder) checkRepeats(feed *pipeline.Feed, live bool) {
	to, sums := b.addsTo()
	if to == "" {
		return
	}
	rebuild := "--restart rebuild empties the table first (if weir did not make it: empty it, run weir forget, and sync again)"
	if b.plan.Job.Plan.Star() != nil {
		rebuild = "drop the tables, run weir forget, and sync again"
	}
	b.faultIf(b.Source.Restart == Reread, "restart", "--restart reread would add all messages again to %s: %s", to, rebuild)
	b.faultIf(b.Table.Tables != nil, "tables", "--tables: this job and the job of %s would both add messages to %s: run the whole job with --restart rebuild, or give these tables a config file of their own", b.File, to)
	if !sums { // a repeated row can be found
		return
	}
	if live && feed.ResumeField != "" && feed.Hello != nil {
		b.add(b.sourceFault("the feed resumes at a value of %q, and may resend messages that are already in %s: leave --resume-field out, or read them from Kafka", feed.ResumeField, to))
	}
	if b.plan.Resumes() {
		b.add(b.sourceFault("the source resumes at a state, and may resend messages that are already in %s", to))
	}
}

// checkValues checks values on their own.
func (b *builder) checkValues() {
	o, sp := &b.Batch, &b.Spool
	b.faultIf(b.Source.AcceptSettings && b.Source.Restart != "", "accept-settings", "--accept-settings continues from the checkpoint, which --restart ignores: leave one out")
	b.faultIf(o.Buffer < 1<<20 || o.Buffer > 32<<30, "buffer", "--buffer %s: must be between 1MiB and 32GiB", o.Buffer)
	b.faultIf(sp.Folder != "" && sp.Max < 1<<20, "spool-max", "--spool-max %s: must be at least 1MiB", sp.Max)
	keepRejects := b.Setting("keep-rejects")
	b.faultIf(keepRejects.IsSet() && b.Rejects.Keep <= 0, "keep-rejects", "--keep-rejects %s: must be a duration such as 30d", keepRejects)
	if file := b.Output.MetricsFile; file != "" && filepath.Ext(file) != ".prom" { // the name also keeps it apart from sources and databases
		b.fault("metrics-file", "--metrics-file %s: must end in .prom, as node_exporter's textfile collector demands", file)
	}
	if address := b.Output.MetricsAddr; address != "" {
		_, port, err := net.SplitHostPort(address)
		if err == nil {
			_, err = net.LookupPort("tcp", port)
		}
		if err != nil {
			b.fault("metrics-addr", "--metrics-addr: %v", err)
		}
	}
}

// checkSpool checks --spool and --init, which need a live source, and --capture, which needs a source that is not
// stored. A config file may set init for a stored source, because a backfill uses the same file to read captures.
func (b *builder) checkSpool(live, stored bool) {
	b.faultIf(b.Spool.Folder != "" && !live, "spool", "--spool needs a connection; files are already on disk, and stdin cannot be resumed")
	b.faultIf(b.Setting("init").IsFlag() && !live, "init", "--init is the first line that a connection sends, and the source is not a connection")
	b.faultIf(b.Spool.Capture != "" && stored, "capture", "--capture is for a connection or stdin: a file can be read again")
}
