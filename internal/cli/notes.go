package cli

import (
	"fmt"
	"strings"

	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/quantity"
	"github.com/weirsync/weir/internal/settings"
	"github.com/weirsync/weir/internal/status"
)

// shownUnmet is the maximum number of fields that are named.
const shownUnmet = 10

// notesTo reports what a run did not store as it came. warn gets what probably is a mistake.
func notesTo(info, warn func(text string), did *status.Snapshot, m *mapping.Mapping) {
	say := func(say func(string), kind status.NoteKind, format string) {
		if counts := did.Notes[kind]; len(counts) > 0 {
			say(fmt.Sprintf(format, someOf(counts)))
		}
	}
	say(info, status.Ignored, "ignored, without a column: %s (--unknown-fields add --restart reread adds them)")
	if n := did.Notes.Total(status.Passed); n > 0 {
		info(fmt.Sprintf("ignored by %s: %s", ignoredBy(m), quantity.Count(n, "message")))
	}
	say(info, status.NoTable, "ignored"+noTableReason(m)+": %s")
	say(info, status.Mismatched, "treated as absent, because a path enters a value that is not an object or array: %s")
	say(warn, status.Lost, "values that were not kept: %s")
	say(warn, status.Nulled, "values that do not fit their columns, stored as NULL: %s")
	var absent []string
	for i := range did.Unmet {
		text, mistyped := unmetText(&did.Unmet[i])
		if i == shownUnmet {
			absent = append(absent, fmt.Sprintf("and %d more", len(did.Unmet)-i))
			break
		}
		if mistyped {
			warn("no message had the field " + text)
		} else { // it may just be missing from the input of this run
			absent = append(absent, text)
		}
	}
	if len(absent) > 0 {
		info("no message had " + strings.Join(absent, ", "))
	}
}

// unmetText describes a field that an option names and no message had. If it is probably mistyped, the text suggests
// the right one.
func unmetText(u *status.Unmet) (text string, mistyped bool) {
	meant := settings.DidYouMean(u.Name, u.Siblings)
	return fmt.Sprintf("%q (%s)%s", u.Field, u.Option, meant), meant != ""
}

// ignoredBy returns the setting that ignores messages by content.
func ignoredBy(m *mapping.Mapping) string {
	if m.File == "" {
		return "--envelope " + m.Envelope.Preset
	}
	return m.File
}

// noTableReason explains why messages match no table.
func noTableReason(m *mapping.Mapping) string {
	if m.File == "" {
		return " by --when"
	}
	return ", no table takes them"
}
