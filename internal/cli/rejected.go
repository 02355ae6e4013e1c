package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/pipeline"
	"github.com/weirsync/weir/internal/quantity"
	"github.com/weirsync/weir/internal/settings"
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
		texts[i] = reasonText(c, &did.Reasons[i])
	}
	at := c.Rejects.Show
	if c.Rejects.To == pipeline.DiscardRejects {
		at = "--rejects discard keeps none"
	}
	many := quantity.Grouped(did.Rejected)
	if slices.ContainsFunc(did.Reasons, func(r status.Reason) bool { return r.Element > 0 }) { // a line has several messages
		many = quantity.Count(did.Rejected, "message")
	}
	return fmt.Sprintf("%s of %s %s rejected: %s. %s", many, quantity.Count(did.Committed+did.Pending, "line"), were, strings.Join(texts, "; "), at)
}

// reasonText describes a reason with its first line.
func reasonText(c *pipeline.Config, r *status.Reason) string {
	detail := clipped(r.Detail, shownDetail)
	what, place := detail, fmt.Sprintf("line %d", r.Line)
	records := settings.Sources.Type(r.Source) == source.Partition
	if records {
		place = fmt.Sprintf("offset %d", r.Offset)
	}
	place += fold.ElementText(r.Element)
	if len(c.Sources) > 1 || records { // offsets are per partition
		place = r.Source + " " + place
	}
	if r.Lines > 1 {
		place = "first: " + place
	}
	if !r.Alike {
		what, place = string(r.Reason), place+": "+detail
	}
	if r.Reason == feed.BadKey && c.Plan.IsPlain() && r.Element == 0 && json.Valid(r.Text) {
		place += "; its fields: " + fieldsOf(r.Text)
	}
	return fmt.Sprintf("%s × %s (%s)", quantity.Grouped(r.Lines), what, place)
}

// fieldsOf names the first fields of a message.
func fieldsOf(message []byte) string {
	var names []string
	for w := feed.Walk(message); w.Next() && len(names) < 10; {
		if w.Depth == 1 {
			names = append(names, clipped(string(w.Name), 40))
			w.Raw() // not what is inside
		}
	}
	return strings.Join(names, ", ")
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
