package pipeline

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/status"
)

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
				name = f.cfg.Plan.Tables[i].Name + "." + field
			}
			f.p.Note(status.Ignored, name, ignored[field])
		}
	}
}

// noteUnmet records the fields that settings name, that no message had, and whose names are probably mistyped. Only the
// reader may call it, until it has ended.
func (f *tables) noteUnmet() {
	of, met := &f.cfg.Feed, f.names.Seen()
	named := append(f.cfg.Plan.Fields(), of.TimeField, of.ResumeField, of.Keepalive.Field, of.Failure.Field)
	others := slices.DeleteFunc(slices.Clone(met), func(name string) bool { return slices.Contains(named, name) })
	unmet := []string{}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(named))) {
		if meant := feed.DidYouMean(name, others); meant != "" && !slices.Contains(met, name) {
			unmet = append(unmet, strconv.Quote(name)+meant)
		}
	}
	f.p.SetUnmet(unmet)
}
