package settings

import (
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/merge"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/mapping/paths"
	"github.com/weirsync/weir/internal/pipeline"
	"github.com/weirsync/weir/internal/source"
)

// tableRules returns the settings that tables inherit.
func (b *builder) tableRules() mapping.Table {
	f := &b.Fold
	t := mapping.Table{Key: f.Key, Rules: fold.Rules{Null: f.Null, BadValues: f.BadValues, FillOnly: f.FillOnly, Scope: f.VersionScope,
		UnknownFields: b.Table.UnknownFields, MaxColumns: b.Table.MaxColumns}}
	var err error
	if f.DeleteWhen != "" {
		if t.DeleteWhen, err = paths.ParseWhen(f.DeleteWhen); err != nil {
			b.fault("delete-when", "--delete-when %q: %v", f.DeleteWhen, err)
		}
	}
	if f.VersionField != "" {
		if t.Version, err = paths.ParsePath(f.VersionField); err != nil {
			b.fault("version-field", "--version-field: %v", err)
		}
	}
	if max := b.Source.MaxLine; max < 1 || max > source.LimitMaxLine {
		b.fault("max-line", "--max-line %s: must be between 1B and %s", max, Size(source.LimitMaxLine))
	}
	keyless := f.Key != nil && len(f.Key) == 0
	if b.Mapping == nil { // otherwise the tables have their own rules
		for _, needs := range []struct {
			name  string
			given bool
		}{{"delete-when", f.DeleteWhen != ""}, {"version-field", f.VersionField != ""}, {"fill-only", f.FillOnly}, {"tombstones-by-key", b.Kafka.TombstonesByKey != "" && b.Kafka.TombstonesByKey != noTombstones}} {
			b.faultIf(keyless && needs.given, needs.name, "--%s needs a key, and --key none makes each message its own row: leave one of them out", needs.name)
		}
	}
	keys := map[string]bool{}
	for _, k := range f.Key {
		if len(f.Key) == 1 && k == "" {
			b.fault("key", "--key names no field")
			break
		}
		name := strings.ToLower(k)
		if k == "" || keys[name] {
			b.fault("key", "--key %s: the names of the fields must differ, and none may be empty", strings.Join(f.Key, ","))
			break
		}
		keys[name] = true
	}
	t.Merge = b.functions()
	b.faultIf(f.FillOnly && f.DeleteWhen != "", "fill-only", "--fill-only never removes a row: leave --delete-when out")
	b.faultIf(f.FillOnly && f.VersionField != "", "fill-only", "--fill-only needs no version: leave one of --version-field and --fill-only out")
	b.faultIf(f.VersionScope == fold.RowScope && f.VersionField == "", "version-scope", "--version-scope row: name the field with --version-field")
	return t
}

// functions returns the merge functions of --merge, by column.
func (b *builder) functions() map[string]merge.Function {
	all := map[string]merge.Function{}
	for _, text := range b.Fold.Merge {
		at := strings.LastIndexByte(text, '=')
		if at < 1 {
			b.fault("merge", "--merge %q: must be COLUMN=FUNCTION, such as hits=sum", text)
			continue
		}
		column := text[:at]
		f, err := merge.Parse(text[at+1:])
		if err != nil {
			b.fault("merge", "--merge %s: %v", text, err)
		}
		if _, twice := all[column]; twice {
			b.fault("merge", "--merge %s: the column %q is named twice", text, column)
		}
		all[column] = f
	}
	maps.DeleteFunc(all, func(_ string, f merge.Function) bool { return f == merge.Last })
	return all
}

// addsTo returns [pipeline.Table.AddsTo] of the first table with sums, else of the first table to which messages add rows.
func (b *builder) addsTo() (to string, sums bool) {
	tables := slices.Clone(b.plan.Job.Tables)
	if star := b.plan.Job.Star; star != nil {
		tables = append(tables, *star)
	}
	for i := range tables {
		if t := &tables[i]; !sums && t.AddsTo() != "" {
			to, sums = t.AddsTo(), t.Fold.SumColumn() != ""
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
	if b.plan.Job.Star != nil {
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
	b.faultIf(b.Fold.Tombstones < 0, "tombstones", "--tombstones cannot be negative")
	b.faultIf(o.Buffer < 1<<20 || o.Buffer > 32<<30, "buffer", "--buffer %s: must be between 1MiB and 32GiB", o.Buffer)
	b.faultIf(b.Source.RotateWait < 0, "rotate-wait", "--rotate-wait cannot be negative")
	b.faultIf(o.Period < 0, "batch-period", "--batch-period cannot be negative")
	b.faultIf(o.RetryFor < 0, "retry-for", "--retry-for cannot be negative")
	b.faultIf(sp.Folder != "" && sp.Max < 1<<20, "spool-max", "--spool-max %s: must be at least 1MiB", sp.Max)
	keepCaptures := b.Setting("keep-captures").IsSet() && sp.KeepCaptures != Forever
	b.faultIf(keepCaptures && (sp.Capture == "" || sp.KeepCaptures <= 0), "keep-captures", "--keep-captures: must be a duration such as 30d, and needs --capture")
	keepRejects := b.Setting("keep-rejects")
	b.faultIf(keepRejects.IsSet() && b.Rejects.Keep <= 0, "keep-rejects", "--keep-rejects %s: must be a duration such as 30d", keepRejects)
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
