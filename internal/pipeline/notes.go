package pipeline

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/status"
)

// noteNulled counts values that count as null, and warns of the first value of each column.
func (r *run) noteNulled(values []fold.Nulled) {
	for _, v := range values {
		if _, first := r.p.Note(status.Nulled, v.Table+"."+v.Column, 1); first {
			r.cfg.Log.Warn(fmt.Sprintf("table %q, column %q: a value that does not fit is stored as NULL (the first one; the summary counts them): %s", v.Table, v.Column, v.Why))
		}
	}
}

// noteLost counts values of a line that are not kept, and warns of the first of each name. It is called after the line
// was folded, because until then the line may be rejected or mapped again.
func (r *run) noteLost(values []mapping.LostValue) {
	for _, v := range values {
		if _, first := r.p.Note(status.Lost, v.Table+"."+v.Name, 1); !first {
			continue
		}
		text := "a message that changes the key of a row has no value for the column %q: the row has none there now. Let the source send whole rows (Postgres: REPLICA IDENTITY FULL)"
		if v.Why == mapping.NameTaken {
			text = "the field %q is ignored: the column of that name has another source. Name a column for the field, or rename that one"
		}
		r.cfg.Log.Warn(fmt.Sprintf("table %q: "+text, v.Table, v.Name))
	}
}

// notePassed counts a message that is for no table, and warns of the first one that the envelope does not apply.
func (r *run) notePassed(of *mapping.Result) {
	switch of.Fate {
	case mapping.Ignored:
		r.p.Note(status.Passed, "ignored", 1)
	case mapping.Warned:
		if _, first := r.p.Note(status.Passed, "not applied", 1); first {
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
func (f *folding) noteMismatches() {
	for path, n := range f.mapper.TakeMismatches() {
		f.p.Note(status.Mismatched, path, n)
	}
}

// noteIgnored counts values without a column, and returns the fields that are new among them.
func (f *folding) noteIgnored() (fresh []string) {
	for i, folder := range f.folders {
		ignored := folder.TakeIgnored()
		for _, field := range slices.Sorted(maps.Keys(ignored)) {
			n := ignored[field]
			if len(f.folders) > 1 {
				field = f.tables[i].Name + "." + field
			}
			if name, first := f.p.Note(status.Ignored, field, n); first {
				fresh = append(fresh, name)
			}
		}
	}
	return fresh
}

// warnIgnored warns of fields that have no column, unless the user's settings ignore them.
func (f *folding) warnIgnored(fields []string) {
	unasked := func(field string) bool {
		return slices.ContainsFunc(f.tables, func(t Table) bool {
			return t.Fold.UnknownFields == "" && (len(f.tables) == 1 || strings.HasPrefix(field, t.Name+"."))
		})
	}
	var texts []string
	for _, field := range fields {
		switch {
		case field == status.OtherNames:
			texts = append(texts, "and others")
		case unasked(field):
			texts = append(texts, strconv.Quote(field))
		}
	}
	if len(texts) > 0 {
		f.cfg.Log.Warn(fmt.Sprintf("ignored, without a column: %s (--unknown-fields add adds columns)", strings.Join(texts, ", ")))
	}
}

// noteUnmet records the fields that options name and that no message had. Only the reader may call it, until it has
// ended.
func (f *folding) noteUnmet() {
	met := f.names.Seen()
	if len(met) == 0 {
		return // there were no messages
	}
	unmet, named := f.unmet()
	met = slices.DeleteFunc(met, func(name string) bool { return slices.Contains(named, name) })
	for i := range unmet {
		if unmet[i].Siblings == nil {
			unmet[i].Siblings = met
		}
	}
	f.p.SetUnmet(unmet)
}

// unmet returns those fields, and all fields of messages that options name.
func (f *folding) unmet() (unmet []status.Unmet, named []string) {
	add := func(option, field string) {
		if field == "" {
			return
		}
		if named = append(named, field); !f.names.HasSeen(field) {
			unmet = append(unmet, status.Unmet{Option: option, Field: field, Name: field})
		}
	}
	add("--time-field", f.cfg.Feed.TimeField)
	add("--resume-field", f.cfg.Feed.ResumeField)
	add("--keepalive-when", f.cfg.Feed.Keepalive.Field)
	add("--error-when", f.cfg.Feed.Failure.Field)
	for _, u := range f.mapper.UnresolvedPaths() {
		option := u.By
		switch {
		case f.mapper.plan.Mapping().File == "": // without a config file, a flag sets it
			option = "--" + strings.ReplaceAll(u.By, "_", "-")
			if u.By == "ignore" {
				option = "--envelope"
			}
		case u.Column != "":
			option = fmt.Sprintf("table %q, column %q", u.Table, u.Column)
		case u.Table != "":
			option = fmt.Sprintf("table %q, %s", u.Table, u.By)
		}
		of := status.Unmet{Option: option, Field: u.Path, Name: u.Name, Siblings: u.Siblings}
		if !f.again || slices.ContainsFunc(f.before, func(b status.Unmet) bool { return b.Option == of.Option && b.Field == of.Field }) {
			unmet = append(unmet, of)
		}
	}
	return unmet, append(named, f.mapper.plan.Fields()...)
}
