package job

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/source"
)

// A SettingsError says that a run cannot continue from a checkpoint by the settings that
// it has.
type SettingsError struct{ What string }

func (e SettingsError) Error() string { return e.What }

// ExitCode is that of a wrong usage.
func (e SettingsError) ExitCode() int { return 2 }

// settings are those by which lines are folded, by the names of their flags, as a
// checkpoint keeps them.
func (c *Config) settings() (string, error) {
	all := map[string]string{"max-line": strconv.Itoa(c.Source.MaxLine)}
	for i := range c.Tables {
		t := &c.Tables[i]
		f, of := &t.Fold, ""
		if len(c.Tables) > 1 {
			of = ofTable + strconv.Quote(t.Name)
		}
		deletes := ""
		if f.DeleteField != "" {
			deletes = f.DeleteField + "=" + f.DeleteValue
		}
		scope := ""
		if f.Version != "" {
			scope = string(f.Scope)
		}
		for name, value := range map[string]string{
			"key": strings.Join(slices.Sorted(slices.Values(f.Key)), ","), "null": string(cmp.Or(f.Null, fold.ClearNull)), "delete-when": deletes, "fill-only": strconv.FormatBool(f.FillOnly),
			"version-field": f.Version, "version-scope": scope, "new-columns": string(f.Columns), "max-columns": strconv.Itoa(f.MaxColumns),
		} {
			all[name+of] = value
		}
		if t.Mapping != "" {
			all[mappingSetting+of] = t.Mapping
		}
	}
	text, err := json.Marshal(all)
	return string(text), err
}

// ofTable stands between the name of a setting and that of its table, where there are
// several.
const ofTable = " of table "

// mappingSetting is what makes rows of messages.
const mappingSetting = "mapping"

// rebuildOnly are the settings that can change only with an empty table: old rows or values
// would stay.
var rebuildOnly = []string{"key", "fill-only", mappingSetting}

// changes returns words for the settings that differ from those of a checkpoint, and whether
// one of them is of rebuildOnly.
func changes(was, now string) (words []string, rebuild bool, err error) {
	var old, new map[string]string
	if err := errors.Join(json.Unmarshal([]byte(was), &old), json.Unmarshal([]byte(now), &new)); err != nil {
		return nil, false, fmt.Errorf("reading the settings of the checkpoint: %w", err)
	}
	all := maps.Clone(old)
	maps.Copy(all, new)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if old[name] != new[name] {
			flag, _, _ := strings.Cut(name, ofTable)
			if flag == mappingSetting {
				words = append(words, "the "+name+" has changed")
			} else {
				words = append(words, fmt.Sprintf("--%s was %s and is %s", name, orNone(old[name]), orNone(new[name])))
			}
			rebuild = rebuild || slices.Contains(rebuildOnly, flag)
		}
	}
	return words, rebuild, nil
}

func orNone(value string) string {
	if value == "" {
		return "not set"
	}
	return strconv.Quote(value)
}

// admitAll returns the sources of the run with the checkpoints that they continue from.
// Where the run must not continue from one of these, it ends before it has written
// anything.
func (r *run) admitAll(ctx context.Context) ([]start, error) {
	starts := make([]start, 0, len(r.Sources))
	var names []string
	for _, spec := range r.Sources {
		name, err := source.Name(spec)
		if err != nil {
			return nil, err
		}
		if r.fenced[name] {
			continue
		}
		s := r.startOf(name)
		starts = append(starts, s)
		if !s.unnamed {
			names = append(names, s.name)
		}
	}
	found, err := r.claims.Checkpoints(ctx, names...)
	if err != nil {
		return nil, err
	}
	tables, err := r.claims.Tables(ctx)
	if err != nil {
		return nil, err
	}
	for i := range starts {
		if starts[i].unnamed {
			continue
		}
		starts[i].cp, found = found[0], found[1:]
	}
	// The last commit of a run that was killed may have come after the tables were read.
	if slices.ContainsFunc(starts, r.isOtherTable) || len(tables) > 0 && !r.writes() {
		if err := r.begin(ctx); err != nil {
			return nil, err
		}
	}
	if len(tables) > 0 && !r.writes() {
		return nil, SettingsError{fmt.Sprintf("job %q is for %s: a run into %s needs a job of its own (--job NAME)", r.Job, tableList(tables), r.tableNames())}
	}
	for i := range starts {
		if err := r.admit(&starts[i]); err != nil {
			return nil, err
		}
	}
	return starts, nil
}

// startOf returns the start of a source without its checkpoint.
func (r *run) startOf(name string) start {
	traits := source.TraitsOf(name)
	resumes := traits.Rewindable || r.Feed.resumes(name)
	return start{name: name, unnamed: !traits.Named && !r.ResumeStdin, resumes: resumes, repeats: resumes && traits.Named}
}

// writes reports whether the job has written to the tables; to one of them at least where
// other settings are accepted, for there may be new ones.
func (r *run) writes() bool {
	all, some := true, false
	for i := range r.tables {
		has := slices.Contains(r.tables[i].Writers, r.Job)
		all, some = all && has, some || has
	}
	return all || some && r.AcceptSettings || r.hasWritten
}

// isOtherTable reports whether a table is not the one that a checkpoint was written for.
func (r *run) isOtherTable(s start) bool { return len(sink.OtherTables(&s.cp, r.tables)) > 0 }

// tableNames are the tables of the run, for people.
func (r *run) tableNames() string {
	names := make([]string, len(r.Tables))
	for i := range names {
		names[i] = r.Tables[i].Name
	}
	return tableList(names)
}

// tableList lists tables for people.
func tableList(names []string) string {
	quoted := make([]string, len(names))
	for i := range names {
		quoted[i] = strconv.Quote(names[i])
	}
	if len(names) == 1 {
		return "table " + quoted[0]
	}
	return "tables " + strings.Join(quoted, ", ")
}

// admit reads where a source continues, and reports why it cannot.
func (r *run) admit(s *start) (err error) {
	if s.from, err = positionOf(s.cp); err != nil {
		return fmt.Errorf("the checkpoint of job %q and %s: %w", r.Job, s.name, err)
	}
	r.p.CommittedBefore(s.cp.Committed)
	if s.accepted, err = r.mayContinue(s); err != nil {
		return err
	}
	if r.FromStart {
		s.from = position{}
	}
	if s.from == (position{}) {
		s.cp.Mark, s.cp.Rejected = "", 0
	}
	return nil
}

// mayContinue reports why a run cannot continue from a checkpoint. accepted says that it
// does by --accept-settings.
func (r *run) mayContinue(s *start) (accepted bool, err error) {
	cp, from := &s.cp, s.from
	if r.Rebuild || from == (position{}) || cp.Settings == "" {
		return false, r.keyErr
	}
	words, stale, err := changes(cp.Settings, r.settings)
	if err != nil {
		return false, err
	}
	stale = stale && (r.keyErr != nil || slices.ContainsFunc(r.tables, func(t schema.Table) bool { return t.Exists }))
	others := sink.OtherTables(cp, r.tables)
	switch {
	case r.FromStart && stale:
		return false, SettingsError{fmt.Sprintf("--from-start would leave rows of the old settings in %s: %s; %s", r.tableNames(), strings.Join(words, ", "), r.howToRebuild())}
	case r.FromStart:
		return false, r.keyErr
	case len(words) > 0 && !r.AcceptSettings:
		ways := []string{r.howToRebuild()}
		if !stale {
			ways = append(ways, "--from-start reads again over the rows that exist")
		}
		if r.keyErr == nil {
			ways = append(ways, "--accept-settings continues under the new settings")
		}
		return false, SettingsError{fmt.Sprintf("%s was read up to line %d with other settings: %s (%s)", s.name, from.line, strings.Join(words, ", "), strings.Join(ways, "; "))}
	case r.keyErr != nil:
		return false, r.keyErr
	}
	for _, t := range others {
		switch {
		case !t.Exists:
			return false, fmt.Errorf("the table %q of this checkpoint (%s, line %d) is missing: --from-start rebuilds it", t.Name, s.name, from.line)
		case !r.AcceptSettings:
			return false, fmt.Errorf("table %q is not as this checkpoint (%s, line %d) left it: it was dropped and recreated, restored from a dump, lost columns, "+
				"or is unlogged and the server crashed (--from-start reads again; --accept-settings continues with the table as it is)", t.Name, s.name, from.line)
		}
	}
	return len(words) > 0 || len(others) > 0, nil
}

// howToRebuild is how the user gets tables without rows of other settings.
func (r *run) howToRebuild() string {
	if r.keyErr == nil && slices.ContainsFunc(r.tables, func(t schema.Table) bool { return sink.MayRebuild(&t, r.Job) != nil }) {
		return fmt.Sprintf("another --table, or an empty %s and --from-start", r.tableNames())
	}
	return fmt.Sprintf("--rebuild empties %s and reads from the start", r.tableNames())
}
