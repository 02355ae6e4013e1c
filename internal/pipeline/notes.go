package pipeline

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/status"
)

// noteTexts are the warnings of notes.
var noteTexts = map[fold.NoteKind]string{
	fold.Nulled:     "table %q, column %q: a value that does not fit is stored as NULL (the first one; the summary counts them): ",
	fold.KeyChanged: "table %q: a message that changes the key of a row has no value for the column %q: the row has none there now. Let the source send whole rows (Postgres: REPLICA IDENTITY FULL)",
	fold.NameTaken:  "table %q: the field %q is ignored: the column of that name has another source. Name a column for the field, or rename that one",
}

// note counts values that are not stored as they came, and warns of the first of each name. It is called after the line
// was folded, because until then the line may be rejected or mapped again.
func (r *run) note(values []fold.Note) {
	for _, v := range values {
		kind := status.Lost
		if v.Kind == fold.Nulled {
			kind = status.Nulled
		}
		if first := r.p.Note(kind, v.Table+"."+v.Column, 1); first {
			r.cfg.Log.Warn(fmt.Sprintf(noteTexts[v.Kind], v.Table, v.Column) + v.Why)
		}
	}
}

// notePassed counts a message that is for no table, and warns of the first one that the envelope does not apply.
func (r *run) notePassed(of *mapping.Result) {
	switch of.Fate {
	case mapping.Ignored:
		r.p.Note(status.Passed, "ignored", 1)
	case mapping.Warned:
		if first := r.p.Note(status.Passed, "not applied", 1); first {
			r.cfg.Log.Warn(of.Warning)
		}
	case mapping.NoTable:
		name := "all"
		if d := &of.Discriminator; d.Path != "" {
			name = fmt.Sprintf("%s=%s", d.Path, d.Value())
		}
		r.p.Note(status.NoTable, name, 1)
	}
}

// noteMismatches counts values that are not the object or array that a path expects.
func (f *tables) noteMismatches() {
	for path, n := range f.mapper.TakeMismatches() {
		f.p.Note(status.Mismatched, path, n)
	}
}

// noteIgnored counts values without a column.
func (f *tables) noteIgnored() {
	for i, folder := range f.folders {
		ignored := folder.TakeIgnored()
		for _, field := range slices.Sorted(maps.Keys(ignored)) {
			name := field
			if len(f.folders) > 1 {
				name = f.all[i].Name + "." + field
			}
			f.p.Note(status.Ignored, name, ignored[field])
		}
	}
}

// noteUnmet records the fields that options name and that no message had. Only the reader may call it, until it has
// ended.
func (f *tables) noteUnmet() {
	met := f.names.Seen()
	if len(met) == 0 {
		return // there were no messages
	}
	unmet, named := f.unmet()
	met = slices.DeleteFunc(met, func(name string) bool { return slices.Contains(named, name) })
	all := make([]status.Unmet, len(unmet))
	for i := range unmet {
		u := &unmet[i]
		if u.siblings == nil {
			u.siblings = met
		}
		all[i] = u.Unmet
		all[i].Meant = mapping.DidYouMean(u.name, u.siblings)
	}
	f.p.SetUnmet(all)
}

// An unmetField is a field that an option names and no message had.
type unmetField struct {
	status.Unmet
	name     string   // last part of the path
	siblings []string // other fields that messages have at the same level and no option names
}

// unmet returns those fields, and all fields of messages that options name.
func (f *tables) unmet() (unmet []unmetField, named []string) {
	add := func(option, field string) {
		if field == "" {
			return
		}
		if named = append(named, field); !f.names.HasSeen(field) {
			unmet = append(unmet, unmetField{Unmet: status.Unmet{Option: option, Field: field}, name: field})
		}
	}
	add("--time-field", f.cfg.Feed.TimeField)
	add("--resume-field", f.cfg.Feed.ResumeField)
	add("--keepalive-when", f.cfg.Feed.Keepalive.Field)
	add("--error-when", f.cfg.Feed.Failure.Field)
	for _, u := range f.mapper.UnresolvedPaths() {
		option := u.By
		switch {
		case f.cfg.plan.Mapping().File == "": // without a config file, a flag sets it
			option = "--" + strings.ReplaceAll(u.By, "_", "-")
			if u.By == "ignore" {
				option = "--envelope"
			}
		case u.Column != "":
			option = fmt.Sprintf("table %q, column %q", u.Table, u.Column)
		case u.Table != "":
			option = fmt.Sprintf("table %q, %s", u.Table, u.By)
		}
		of := unmetField{status.Unmet{Option: option, Field: u.Path}, u.Name, u.Siblings}
		if !f.again || slices.ContainsFunc(f.before, func(b unmetField) bool { return b.Unmet == of.Unmet }) {
			unmet = append(unmet, of)
		}
	}
	return unmet, append(named, f.cfg.plan.Fields()...)
}
