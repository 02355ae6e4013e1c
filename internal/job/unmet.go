package job

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/progress"
)

// countUnmet records the fields that options name and that no message had. Only the reader may call it, until it has
// ended.
func (f *folding) countUnmet() {
	met := f.run.names.Seen()
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
	f.run.p.NoteUnused(func(u *progress.Unused) { u.Unmet = unmet })
}

// unmet returns those fields, and all fields of messages that options name.
func (f *folding) unmet() (unmet []progress.Unmet, named []string) {
	add := func(option, field string) {
		if field == "" {
			return
		}
		if named = append(named, field); !f.run.names.HasSeen(field) {
			unmet = append(unmet, progress.Unmet{Option: option, Field: field, Name: field})
		}
	}
	add("--time-field", f.run.cfg.Feed.TimeField)
	add("--resume-field", f.run.cfg.Feed.ResumeField)
	add("--keepalive-when", f.run.cfg.Feed.Keepalive.Field)
	add("--error-when", f.run.cfg.Feed.Failure.Field)
	if f.plan == nil {
		for i := range f.tables {
			o := &f.tables[i].Fold
			add("--delete-when", o.DeleteField)
			add("--version-field", o.Version)
			for _, column := range slices.Sorted(maps.Keys(o.Merge)) {
				add("--merge", column)
			}
			named = append(named, o.Key...)
		}
		return unmet, named
	}
	for _, u := range f.plan.mapper.UnresolvedPaths() {
		option := u.By
		switch {
		case f.run.cfg.Mapping.Fingerprint == nil: // without a config file, a flag sets it
			option = "--" + strings.ReplaceAll(u.By, "_", "-")
			if u.By == "ignore" {
				option = "--envelope"
			}
		case u.Column != "":
			option = fmt.Sprintf("table %q, column %q", u.Table, u.Column)
		case u.Table != "":
			option = fmt.Sprintf("table %q, %s", u.Table, u.By)
		}
		unmet = append(unmet, progress.Unmet{Option: option, Field: u.Path, Name: u.Name, Siblings: u.Siblings})
	}
	if f.before.mapped {
		unmet = slices.DeleteFunc(unmet, func(u progress.Unmet) bool {
			return !slices.ContainsFunc(f.before.unmet, func(b progress.Unmet) bool { return b.Option == u.Option && b.Field == u.Field })
		})
	}
	return unmet, append(named, f.plan.plan.Fields()...)
}
