package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weirsync/weir/internal/pipeline"
	"github.com/weirsync/weir/internal/quantity"
	"github.com/weirsync/weir/internal/settings"
	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/status"
)

// summary is the output of --summary json.
type summary struct {
	Table   string   `json:"table,omitempty"` // "" if there are several
	Sources []string `json:"sources"`
	Lines   int64    `json:"lines"`
	// Uncommitted counts the lines that are not in the database because the run failed.
	Uncommitted int64 `json:"uncommitted,omitempty"`
	Bytes       int64 `json:"bytes"`
	tableCounts
	Rejected int64        `json:"rejected"`
	Notes    status.Notes `json:"notes,omitempty"` // what was not stored as it came
	// Unmet are the fields that options name and no message had.
	Unmet   []string       `json:"unmet_fields,omitempty"`
	Batches int64          `json:"batches"`
	Seconds float64        `json:"seconds"`
	Rate    float64        `json:"lines_per_second"`
	Error   string         `json:"error,omitempty"`
	Tables  []tableSummary `json:"tables,omitempty"` // if there are several
}

// tableSummary is the result for one of several tables.
type tableSummary struct {
	Table string `json:"table"`
	tableCounts
	Rejected int64 `json:"rejected"`
}

type tableCounts struct {
	Messages  int64 `json:"messages"`
	Coalesced int64 `json:"coalesced"`
	Inserted  int64 `json:"inserted"`
	Updated   int64 `json:"updated"`
	Unchanged int64 `json:"unchanged"`
	Deleted   int64 `json:"deleted"`
}

func newSummary(did *status.Snapshot, sources []string) *summary {
	total := did.Total()
	s := &summary{Sources: sources, Lines: did.Lines, Uncommitted: did.Pending, Bytes: did.Bytes, tableCounts: countsOf(&total), Rejected: did.Rejected, Notes: did.Notes, Batches: did.Batches, Seconds: time.Since(did.Start).Seconds()}
	s.Rate = float64(s.Lines) / s.Seconds
	if len(did.Tables) == 1 {
		s.Table = did.Tables[0].Name
		return s
	}
	for i := range did.Tables {
		t := &did.Tables[i]
		of := tableSummary{Table: t.Name, tableCounts: countsOf(t)}
		for _, n := range t.Rejected {
			of.Rejected += n
		}
		s.Tables = append(s.Tables, of)
	}
	return s
}

func countsOf(t *status.Table) tableCounts {
	return tableCounts{t.Messages, t.Coalesced, t.Inserted, t.Updated, t.Unchanged, t.Deleted}
}

// summarize prints the result of a run.
func (e *env) summarize(o *settings.Spec, plan *settings.Plan, c pipeline.Config, p *status.Progress, err error) {
	did := p.Snapshot()
	s := newSummary(&did, c.Sources)
	for _, u := range did.Unmet {
		s.Unmet = append(s.Unmet, u.Field)
	}
	if err != nil {
		s.Error = err.Error()
	}
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
	e.log.Info(e.wrapped(s.text(shownJob(&c))), plainField, "summary", "summary", s)
	notesTo(func(text string) { e.log.Info(text) }, func(text string) { e.log.Warn(text) }, &did, plan.Mapping)
	if s.Rejected > 0 && o.Rejects.To != pipeline.FailRejects { // the error names the line
		e.log.Warn(rejectedText(o, &c, &did), "rejected", s.Rejected, "lines", s.Lines)
	}
}

// wrapped breaks long lines after semicolons, to fit the terminal if stderr is one.
func (e *env) wrapped(text string) string {
	if e.line.width == nil {
		return text
	}
	columns := e.line.width() - len(logPrefix)
	var b strings.Builder
	for line := range strings.Lines(text) {
		left := columns
		for i, part := range strings.Split(line, "; ") {
			switch left -= len("; ") + len(part); {
			case i > 0 && left < 0:
				b.WriteString(";\n  ")
				left = columns - len(part)
			case i > 0:
				b.WriteString("; ")
			}
			b.WriteString(part)
		}
	}
	return b.String()
}

// stoppedText tells where a run was stopped and how to resume it.
func stoppedText(o *settings.Spec, stops []status.Stop) string {
	const named = 3
	var places []string
	for _, s := range stops[:min(named, len(stops))] {
		place := fmt.Sprintf("line %d of %s", s.Line, cmp.Or(strings.TrimPrefix(s.Source, "-"), source.StdinName))
		if sourceKinds.Type(s.Source) == source.Partition {
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

// text returns the summary: one line, and one more for each of several tables.
func (s *summary) text(job string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s (%s)", cmp.Or(s.Table, job), quantity.Count(s.Lines, "line"), quantity.Bytes(s.Bytes))
	if s.Uncommitted > 0 {
		fmt.Fprintf(&b, ", %s of them not committed,", quantity.Grouped(s.Uncommitted))
	}
	fmt.Fprintf(&b, " in %s, %s/s",
		quantity.Duration(time.Duration(s.Seconds*float64(time.Second))), quantity.Grouped(int64(s.Rate)))
	fmt.Fprintf(&b, "; rows: %s; %s rejected; %s", s.rows(), quantity.Grouped(s.Rejected), quantity.Count(s.Batches, "batch"))
	if s.Messages > 0 {
		fmt.Fprintf(&b, ", %.0f %% of the messages folded", 100*float64(s.Coalesced)/float64(s.Messages))
	}
	for _, t := range s.Tables {
		fmt.Fprintf(&b, "\n%s: rows: %s; %s rejected", t.Table, t.rows(), quantity.Grouped(t.Rejected))
	}
	return b.String()
}

func (t *tableCounts) rows() string {
	return fmt.Sprintf("%s inserted, %s updated, %s unchanged, %s deleted", quantity.Grouped(t.Inserted), quantity.Grouped(t.Updated), quantity.Grouped(t.Unchanged), quantity.Grouped(t.Deleted))
}
