package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/pipeline"
	"github.com/weirsync/weir/internal/quantity"
	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/status"
)

// rejectedText summarizes the rejected lines: how many, for which reasons, where the first one of each reason is, and
// the command that shows all.
func rejectedText(c *pipeline.Config, did *status.Snapshot) string {
	were := "were"
	if did.Rejected == 1 {
		were = "was"
	}
	texts := make([]string, len(did.Reasons))
	for i := range did.Reasons {
		texts[i] = reasonText(&did.Reasons[i], len(c.Sources) > 1)
	}
	at := c.Rejects.Show
	if c.Rejects.To == pipeline.DiscardRejects {
		at = "--rejects discard keeps none"
	}
	many := quantity.Grouped(did.Rejected)
	if slices.ContainsFunc(did.Reasons, func(r status.Reason) bool { return r.Element > 0 }) { // a line has several messages
		many = quantity.Count(did.Rejected, "message")
	}
	return fmt.Sprintf("%s of %s %s rejected: %s. %s", many, quantity.Count(did.Lines, "line"), were, strings.Join(texts, "; "), at)
}

// reasonText describes a reason with its first line. several means that the run has several sources.
func reasonText(r *status.Reason, several bool) string {
	detail := clipped(r.Detail, shownDetail)
	what, place := detail, fmt.Sprintf("line %d", r.Line)
	records := sourceKinds.Type(r.Source) == source.Partition
	if records {
		place = fmt.Sprintf("offset %d", r.Offset)
	}
	place += fold.ElementText(r.Element)
	if several || records { // offsets are per partition
		place = r.Source + " " + place
	}
	if r.Lines > 1 {
		place = "first: " + place
	}
	if !r.Alike {
		what, place = string(r.Reason), place+": "+detail
	}
	return fmt.Sprintf("%s × %s (%s)", quantity.Grouped(r.Lines), what, place)
}

// shownDetail is how much of a reason is shown, which may have a value of any length.
const shownDetail = 200 // characters

// clipped truncates a text after most characters.
func clipped(s string, most int) string {
	for i := range s {
		if most--; most < 0 {
			return s[:i] + "…"
		}
	}
	return s
}
