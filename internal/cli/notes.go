package cli

import (
	"fmt"
	"log/slog"
	"slices"

	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/quantity"
	"github.com/weirsync/weir/internal/settings"
	"github.com/weirsync/weir/internal/status"
)

// noteText says what was not stored as it came. warn is true if that is probably a mistake.
func noteText(n *status.NoteText, plan *settings.Plan) (text string, warn bool) {
	switch n.Kind {
	case status.Passed:
		return n.Text + ": " + quantity.Count(n.Total, "message"), false
	case status.Ignored:
		unasked := plan.Mapping.File == "" && slices.ContainsFunc(plan.Mapping.Tables, func(t mapping.Table) bool { return t.UnknownFields == "" && !t.IsStar() })
		return fmt.Sprintf("%s: %s (--unknown-fields add adds columns: with --restart reread of all lines, with --accept-settings of later ones)", n.Text, someOf(n.Counts)), unasked
	}
	return n.Text + ": " + someOf(n.Counts), false
}

// notesTo reports what a run did not store as it came, and fields that options name and no message had.
func notesTo(say func(text string, warn bool), did *status.Snapshot, plan *settings.Plan) {
	for _, n := range did.NoteTexts() {
		say(noteText(&n, plan))
	}
	for _, u := range did.Unmet {
		say("no message had the field "+u, true)
	}
}

func logNote(log *slog.Logger, text string, warn bool) {
	if warn {
		log.Warn(text)
	} else {
		log.Info(text)
	}
}
