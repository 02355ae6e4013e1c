package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/pipeline"
	"github.com/weirsync/weir/internal/quantity"
	"github.com/weirsync/weir/internal/settings"
	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/status"
)

// manyWrites is how often each row is written from which on a larger buffer is advised.
const manyWrites = 2

func (e *env) summarize(o *settings.Spec, plan *settings.Plan, p *status.Progress, err error) {
	p.End(err)
	s := p.Snapshot()
	if o.Output.Summary == settings.JSON {
		line, _ := json.Marshal(s) // a plain struct
		to := e.stdout
		if plan.Resumes() { // stdout is used for resume values
			to = e.stderr
		}
		fmt.Fprintf(to, "%s\n", line)
		return
	}
	if err != nil && s.Lines == 0 {
		return
	}
	e.log.Info(summaryText(&s), "status", s)
	if s.WritesPerRow >= manyWrites {
		e.log.Info(fmt.Sprintf("each row was written %.1f times: a larger --buffer, or a file sorted by its key, writes it once", s.WritesPerRow))
	}
	notesTo(func(text string, warn bool) { logNote(e.log, text, warn) }, &s, plan)
	if s.Rejected > 0 && o.Rejects.To != pipeline.FailRejects { // the error names the line
		e.log.Warn(rejectedText(&plan.Job, &s), "rejected", s.Rejected, "lines", s.Committed+s.Pending)
	}
}

// stoppedText tells where a run was stopped and how to resume it.
func stoppedText(o *settings.Spec, stops []status.Stop) string {
	const named = 3
	var places []string
	for _, s := range stops[:min(named, len(stops))] {
		place := fmt.Sprintf("line %d of %s", s.Line, cmp.Or(strings.TrimPrefix(s.Source, "-"), source.StdinName))
		if settings.Sources.Type(s.Source) == source.Partition {
			place = fmt.Sprintf("offset %d of %s", s.Offset, s.Source)
		}
		if s.Read > 0 {
			place += fmt.Sprintf(" (%.0f %%)", 100*s.Read)
		}
		places = append(places, place)
	}
	if n := len(stops) - named; n > 0 {
		places = append(places, quantity.Count(int64(n), "more source"))
	}
	text := "stopped by a signal"
	if len(places) > 0 {
		text += " at " + strings.Join(places, ", ")
	}
	switch {
	case slices.ContainsFunc(stops, func(s status.Stop) bool { return !s.Resumes }):
	case o.Source.Restart != "":
		text += "; run the same command without --restart to resume"
	default:
		text += "; run the same command to resume"
	}
	return text
}

// someOf lists at most 20 counts by name.
func someOf(counts map[string]int64) string {
	names := slices.Sorted(maps.Keys(counts))
	for i, n := range names {
		names[i] = fmt.Sprintf("%q (%s)", n, quantity.Grouped(counts[n]))
	}
	if len(names) > 20 {
		names = append(names[:20], fmt.Sprintf("and %d more", len(names)-20))
	}
	return strings.Join(names, ", ")
}

// summaryText returns the summary: one line, and one more for each of several tables.
func summaryText(s *status.Snapshot) string {
	var b strings.Builder
	name := s.Job
	if len(s.Tables) == 1 {
		name = s.Tables[0].Name
	}
	fmt.Fprintf(&b, "%s: %s (%s)", name, quantity.Count(s.Committed, "line"), quantity.Bytes(s.Bytes))
	if s.Pending > 0 {
		fmt.Fprintf(&b, ", and %s read but not committed,", quantity.Grouped(s.Pending))
	}
	fmt.Fprintf(&b, " in %s, %s/s; %s; %s", quantity.Seconds(s.Seconds), quantity.Grouped(int64(float64(s.Committed)/max(s.Seconds, 0.001))), rowsText(&s.Rows, s.Rejected), quantity.Count(s.Batches, "batch"))
	if s.Messages > 0 {
		fmt.Fprintf(&b, ", %.0f %% of the messages folded", 100*float64(s.Coalesced)/float64(s.Messages))
	}
	for i := 0; len(s.Tables) != 1 && i < len(s.Tables); i++ {
		t := &s.Tables[i]
		fmt.Fprintf(&b, "\n%s: %s", t.Name, rowsText(&t.Rows, t.RejectedLines()))
	}
	return b.String()
}

func rowsText(r *status.Rows, rejected int64) string {
	return fmt.Sprintf("rows: %s inserted, %s updated, %s unchanged, %s deleted; %s rejected",
		quantity.Grouped(r.Inserted), quantity.Grouped(r.Updated), quantity.Grouped(r.Unchanged), quantity.Grouped(r.Deleted), quantity.Grouped(rejected))
}
