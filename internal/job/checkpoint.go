package job

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
)

// A SettingsError says that a run cannot continue from a checkpoint by the settings that
// it has.
type SettingsError struct{ What string }

func (e SettingsError) Error() string { return e.What }

// ExitCode is that of a wrong usage.
func (e SettingsError) ExitCode() int { return 2 }

// admitAll returns the lanes with the checkpoints that they continue from.
// Where the run must not continue from one of these, it ends before it has written
// anything.
func (r *run) admitAll(ctx context.Context, lanes []string) ([]start, error) {
	starts := make([]start, 0, len(lanes))
	var names []string
	for _, name := range lanes {
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
	if err := r.readLatest(ctx); err != nil {
		return nil, err
	}
	for i := range starts {
		if starts[i].unnamed {
			continue
		}
		if err := starts[i].found(found[0]); err != nil {
			return nil, err
		}
		found = found[1:]
	}
	// The last commit of a run that was killed may have come after the tables were read.
	if slices.ContainsFunc(starts, r.isOtherTable) || r.isOtherTable(r.latest) || len(tables) > 0 && !r.writes() {
		if err := r.begin(ctx); err != nil {
			return nil, err
		}
	}
	fresh := r.unwritten()
	otherJob := SettingsError{fmt.Sprintf("job %q is for %s: a run into %s needs a job of its own (--job NAME)", r.Job, tableList(tables), r.tableNames())}
	if len(tables) > 0 && !r.writes() && len(fresh) == r.declared {
		return nil, otherJob
	}
	for i := range starts {
		if err := r.admit(&starts[i]); err != nil {
			return nil, err
		}
	}
	if err := r.checkTables(&r.latest, r.otherTables(&r.latest)); err != nil {
		return nil, err
	}
	if len(tables) > 0 && !r.writes() { // no checkpoint knows the job's tables
		if way := r.howToFill(fresh); way != "" {
			otherJob.What += "; " + way
		}
		return nil, otherJob
	}
	return starts, nil
}

// readLatest reads the checkpoint that the job wrote last, whose source may be none of this run: the files that
// made a table may have been rotated away.
func (r *run) readLatest(ctx context.Context) (err error) {
	r.latest = start{}
	if r.latest.name, r.latest.cp, err = r.claims.Latest(ctx); err == nil {
		r.latest.from, err = positionOf(r.latest.cp)
	}
	return err
}

// startOf returns the start of a source without its checkpoint.
func (r *run) startOf(name string) start {
	traits := r.Kind.Traits(name)
	resumes := traits.Rewindable || r.Feed.resumes(traits)
	return start{name: name, traits: traits, unnamed: !traits.Named && !r.ResumeStdin, resumes: resumes, repeats: resumes && traits.Named}
}

// found gives a start the checkpoint that its source has.
func (s *start) found(cp sink.Checkpoint) (err error) {
	s.cp = cp
	s.was, err = parseSettings(cp.Settings)
	return err
}

// unwritten are the names of the tables that the job has not written to, but for those that messages
// have added.
func (r *run) unwritten() (names []string) {
	for i := range r.declared {
		if !slices.Contains(r.tables[i].Writers, r.Job) {
			names = append(names, r.Tables[i].Name)
		}
	}
	return names
}

// writes reports whether the job may write to the tables: whether it has written to all of them,
// or to some where a run may bring new ones.
func (r *run) writes() bool {
	fresh := len(r.unwritten())
	return fresh == 0 || fresh < r.declared && (r.AcceptSettings || r.FromStart) || r.hasWritten
}

// isOtherTable reports whether a table is not the one that a checkpoint was written for.
func (r *run) isOtherTable(s start) bool { return len(r.otherTables(&s)) > 0 }

func (r *run) otherTables(s *start) []*schema.Table {
	return sink.OtherTables(&s.cp, r.tables)
}

// tableNames are the tables of the run, for people.
func (r *run) tableNames() string {
	names := make([]string, len(r.Tables))
	for i := range names {
		names[i] = r.Tables[i].Name
	}
	return tableList(names)
}

// tableList lists tables for people; without names they are those that messages add.
func tableList(names []string) string {
	if len(names) == 0 {
		return "the tables of the stream"
	}
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
	if r.FromStart && !r.hasBegun(s) {
		s.from = position{}
	}
	if s.from == (position{}) {
		s.cp.Mark, s.cp.Rejected = "", 0
	}
	return nil
}

// hasBegun reports whether an earlier attempt of this run has committed what it read of a source.
func (r *run) hasBegun(s *start) bool { return s.cp.Run == r.id && !r.isOtherTable(*s) }

// mayContinue reports why a run cannot continue from a checkpoint. accepted says that it
// does by --accept-settings.
func (r *run) mayContinue(s *start) (accepted bool, err error) {
	cp, from := &s.cp, s.from
	if r.Rebuild || from == (position{}) || cp.Settings == "" {
		return false, r.keyErr
	}
	words, stale, fresh := changes(&s.was, &r.settings)
	stale = stale && (r.keyErr != nil || r.Star != nil || slices.ContainsFunc(r.tables, func(t schema.Table) bool { return t.Exists }))
	others := r.otherTables(s)
	switch {
	case r.FromStart && stale:
		return false, SettingsError{fmt.Sprintf("--from-start would leave rows of the old settings in %s: %s; %s", r.tableNames(), strings.Join(words, ", "), r.howToRebuild())}
	case r.FromStart:
		return false, r.keyErr
	case len(words) > 0 && !r.AcceptSettings:
		ways := []string{r.howToRebuild()}
		if way := r.howToFill(fresh); way != "" && r.keyErr == nil {
			ways = append(ways, way)
		}
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
	return len(words) > 0 || len(others) > 0, r.checkTables(s, others)
}

// checkTables reports that tables are not those that a checkpoint was written for, where that matters.
func (r *run) checkTables(s *start, others []*schema.Table) error {
	if r.FromStart || s.from == (position{}) {
		return nil
	}
	for _, t := range others {
		switch {
		case !t.Exists:
			return fmt.Errorf("the table %q of this checkpoint (%s, line %d) is missing: --from-start rebuilds it", t.Name, s.name, s.from.line)
		case !r.AcceptSettings:
			return fmt.Errorf("table %q is not as this checkpoint (%s, line %d) left it: it was dropped and recreated, restored from a dump, lost columns, "+
				"or is unlogged and the server crashed (--from-start reads again; --accept-settings continues with the table as it is)", t.Name, s.name, s.from.line)
		}
	}
	return nil
}

// howToRebuild is how the user gets tables without rows of other settings.
func (r *run) howToRebuild() string {
	if r.Star != nil { // what is to be emptied is known when the stream was read
		return fmt.Sprintf("drop the tables that the job has made, weir forget %s, and sync again", r.Job)
	}
	if r.keyErr == nil && slices.ContainsFunc(r.tables, func(t schema.Table) bool { return sink.MayRebuild(&t, r.Job) != nil }) {
		return fmt.Sprintf("another --table, or an empty %s and --from-start", r.tableNames())
	}
	return fmt.Sprintf("--rebuild empties %s and reads from the start", r.tableNames())
}

// howToFill is how the user gets the rows of new tables, "" where there are none.
func (r *run) howToFill(tables []string) string {
	if len(tables) == 0 || r.Backfill == nil {
		return ""
	}
	return fmt.Sprintf("%s fills %s, and then --accept-settings continues", r.Backfill(tables), tableList(tables))
}
