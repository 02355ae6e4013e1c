package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/pipeline"
	"github.com/weirsync/weir/internal/quantity"
	"github.com/weirsync/weir/internal/settings"
	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/status"
)

// rejectedText summarizes the rejected lines: how many, for which reasons, where the first one of each reason is, and
// the command that shows all.
func rejectedText(o *settings.Spec, c *pipeline.Config, did *status.Snapshot) string {
	were := "were"
	if did.Rejected == 1 {
		were = "was"
	}
	texts := make([]string, len(did.Reasons))
	for i := range did.Reasons {
		texts[i] = reasonText(o, keyOf(c), &did.Reasons[i], len(c.Sources) > 1)
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

// keyOf returns the key of the table if settings define it; nil if a mapping does.
func keyOf(c *pipeline.Config) []string {
	if len(c.Tables) == 0 {
		return nil
	}
	return c.Tables[0].Fold.Key
}

// reasonText describes a reason with its first line. several means that the run has several sources.
func reasonText(o *settings.Spec, key []string, r *status.Reason, several bool) string {
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
	if hint := keyHint(o, key, r); hint != "" {
		place += "; " + hint
	}
	return fmt.Sprintf("%s × %s (%s)", quantity.Grouped(r.Lines), what, place)
}

// keyHint names the fields of a message that lacks the key, and suggests one of them. "": something else is wrong.
func keyHint(o *settings.Spec, key []string, r *status.Reason) string {
	if r.Reason != feed.BadKey || o.Mapping != nil || o.Setting("row").IsSet() || o.Fold.Envelope != "" || !json.Valid(r.Text) {
		return ""
	}
	var names, shown []string
	for w := feed.Walk(r.Text); w.Next(); {
		if w.Depth == 1 {
			names = append(names, string(w.Name))
			w.Raw() // not the JSON inside
		}
	}
	missing := slices.IndexFunc(key, func(k string) bool { return !slices.Contains(names, k) })
	if len(names) == 0 || missing < 0 {
		return ""
	}
	for _, name := range names[:min(len(names), shownFields)] {
		shown = append(shown, clipped(name, shownName))
	}
	if len(names) > shownFields {
		shown = append(shown, "…")
	}
	meant := cmp.Or(mapping.DidYouMean(key[missing], names), "; --key FIELD")
	return "its fields: " + strings.Join(shown, ", ") + meant
}

// Limits for names and values of a feed, which may have any length.
const (
	shownFields = 10
	shownName   = 40  // in characters
	shownDetail = 200 // in characters
)

// clipped truncates a text after most characters.
func clipped(s string, most int) string {
	for i := range s {
		if most--; most < 0 {
			return s[:i] + "…"
		}
	}
	return s
}
