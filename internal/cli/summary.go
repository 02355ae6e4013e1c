package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weirsync/weir/internal/job"
	"github.com/weirsync/weir/internal/progress"
)

// summary is what --summary json prints.
type summary struct {
	Table     string           `json:"table"`
	Sources   []string         `json:"sources"`
	Lines     int64            `json:"lines"`
	Bytes     int64            `json:"bytes"`
	Messages  int64            `json:"messages"`
	Coalesced int64            `json:"coalesced"`
	Inserted  int64            `json:"inserted"`
	Updated   int64            `json:"updated"`
	Unchanged int64            `json:"unchanged"`
	Deleted   int64            `json:"deleted"`
	Rejected  int64            `json:"rejected"`
	Ignored   map[string]int64 `json:"ignored,omitempty"` // values of fields that have no column
	Batches   int64            `json:"batches"`
	Seconds   float64          `json:"seconds"`
	Rate      float64          `json:"lines_per_second"`
	Error     string           `json:"error,omitempty"`
}

// summarize prints what a run did.
func (e *env) summarize(o *syncOptions, c job.Config, p *progress.Progress, err error) {
	did := p.Snapshot()
	t := did.Total()
	s := summary{
		Table: c.Tables[0].Name, Sources: c.Sources, Lines: did.Lines, Bytes: did.Bytes, Messages: t.Messages, Coalesced: t.Coalesced,
		Inserted: t.Inserted, Updated: t.Updated, Unchanged: t.Unchanged, Deleted: t.Deleted,
		Rejected: did.Rejected, Ignored: p.Ignored(), Batches: did.Batches, Seconds: time.Since(did.Start).Seconds(),
	}
	s.Rate = float64(s.Lines) / s.Seconds
	if err != nil {
		s.Error = err.Error()
	}
	if o.summary == jsonFormat {
		line, _ := json.Marshal(s) // a plain struct
		fmt.Fprintf(e.stdout, "%s\n", line)
		return
	}
	if err != nil && s.Lines == 0 {
		return
	}
	e.log.Info(s.text())
	if len(s.Ignored) > 0 {
		names := slices.Sorted(maps.Keys(s.Ignored))
		for i, n := range names {
			names[i] = fmt.Sprintf("%q (%s)", n, grouped(s.Ignored[n]))
		}
		if len(names) > 20 {
			names = append(names[:20], fmt.Sprintf("and %d more", len(names)-20))
		}
		e.log.Info(fmt.Sprintf("ignored, without a column: %s (--new-columns add --from-start adds them)", strings.Join(names, ", ")))
	}
	if s.Rejected > 0 {
		where := map[bool]string{true: c.ShowRejects, false: "--rejects " + o.rejects}[o.rejects == "table"]
		e.log.Warn(fmt.Sprintf("%s of %s lines were rejected (%s)", grouped(s.Rejected), grouped(s.Lines), where))
	}
}

func (s *summary) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s (%s) in %s, %s/s", s.Table, counted(s.Lines, "line"), bytesText(s.Bytes),
		time.Duration(s.Seconds*float64(time.Second)).Round(10*time.Millisecond), grouped(int64(s.Rate)))
	fmt.Fprintf(&b, "; rows: %s inserted, %s updated, %s unchanged, %s deleted", grouped(s.Inserted), grouped(s.Updated), grouped(s.Unchanged), grouped(s.Deleted))
	fmt.Fprintf(&b, "; %s rejected; %s", grouped(s.Rejected), counted(s.Batches, "batch"))
	if s.Messages > 0 {
		fmt.Fprintf(&b, ", %.0f %% of the messages folded", 100*float64(s.Coalesced)/float64(s.Messages))
	}
	return b.String()
}

// counted is a number of things, in the right form.
func counted(n int64, thing string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(thing, "ch"):
		thing += "es"
	default:
		thing += "s"
	}
	return grouped(n) + " " + thing
}

func bytesText(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.1f GB", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	case n >= 1e3:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	}
	return counted(n, "byte")
}
