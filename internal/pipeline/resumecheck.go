package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/source"
)

// A SettingsError says why a run cannot continue from a checkpoint with its settings.
type SettingsError struct{ What string }

func (e SettingsError) Error() string { return e.What }

// ExitCode returns the exit code of wrong usage.
func (e SettingsError) ExitCode() int { return 2 }

// A resumeCheck decides from which checkpoints an attempt may continue. It does not change during the attempt.
type resumeCheck struct {
	*run
	history  *history
	tables   []*mapping.TablePlan // the run's tables
	found    []schema.Table       // the tables as the database has them
	keyErr   error                // why a table cannot have the configured key
	settings settings             // the run's settings
}

// findStarts reads the checkpoints of the lanes and returns where each lane continues. It returns an error, before
// anything is written, if the run must not continue from one of them.
func (a *attempt) findStarts(ctx context.Context, lanes []string) ([]start, error) {
	starts := make([]start, 0, len(lanes))
	var names []string
	for _, name := range lanes {
		s := a.check.startOf(name)
		starts = append(starts, s)
		if !s.unnamed {
			names = append(names, s.name)
		}
	}
	found, err := a.readCheckpoints(ctx, names)
	if err != nil {
		return nil, err
	}
	tables, err := sink.Retried(ctx, a.cfg.Retry, func() ([]string, error) { return a.claims.Tables(ctx) })
	if err != nil {
		return nil, err
	}
	if err := a.readLatest(ctx); err != nil {
		return nil, err
	}
	for i := range starts {
		if starts[i].unnamed {
			continue
		}
		if err := starts[i].setCheckpoint(found[0]); err != nil {
			return nil, err
		}
		found = found[1:]
	}
	// A killed run may have committed its last batch after we read the tables.
	if rc := a.check; slices.ContainsFunc(starts, rc.isOtherTable) || rc.isOtherTable(a.latest) || len(tables) > 0 && !rc.writes() {
		now, err := a.begin(ctx, a.history, a.tables)
		if err != nil {
			return nil, err
		}
		a.check, a.tables, a.settings = now.check, now.tables, now.settings
	}
	return starts, a.check.admitAll(starts, &a.latest, tables)
}

// admitAll decides where the sources continue, or returns why one cannot. latest is the job's most recent checkpoint,
// and tables are the tables that the job has written to.
func (rc *resumeCheck) admitAll(starts []start, latest *start, tables []string) error {
	fresh := rc.unwritten()
	otherJob := SettingsError{fmt.Sprintf("job %q is for %s: a run into %s needs a job of its own (--job NAME)", rc.cfg.Job, tableList(tables), rc.tableNames())}
	if len(tables) > 0 && !rc.writes() && len(fresh) == rc.history.declared {
		return otherJob
	}
	for i := range starts {
		if err := rc.admit(&starts[i]); err != nil {
			return err
		}
	}
	if err := rc.checkTables(latest, rc.otherTables(latest)); err != nil {
		return err
	}
	if len(tables) > 0 && !rc.writes() { // no checkpoint names the job's tables
		if way := rc.howToFill(fresh); way != "" {
			otherJob.What += "; " + way
		}
		return otherJob
	}
	return nil
}

// readLatest reads the job's most recent checkpoint. Its source may not be part of this run: the files that created a
// table may have been rotated away.
func (a *attempt) readLatest(ctx context.Context) error {
	var cp sink.Checkpoint
	err := a.cfg.Retry.Do(ctx, func() (err error) { a.latest.name, cp, err = a.claims.Latest(ctx); return err })
	if err != nil {
		return err
	}
	return a.latest.setCheckpoint(cp)
}

// startOf returns the start of a source, without its checkpoint.
func (rc *resumeCheck) startOf(name string) start {
	kind := rc.cfg.Kind.Type(name)
	s := start{name: name, kind: kind, unnamed: kind == source.Stdin && !rc.cfg.ResumeStdin}
	switch {
	case s.unnamed || !kind.Rewindable() && !rc.cfg.Feed.resumes(kind):
	case kind == source.Stdin:
		s.reread = byLaterRun
	default:
		s.reread = byThisRun
	}
	return s
}

// setCheckpoint sets the checkpoint of a start.
func (s *start) setCheckpoint(cp sink.Checkpoint) (err error) {
	s.cp = cp
	if s.was, err = parseSettings(cp.Settings); err == nil {
		s.from, err = positionOf(cp)
	}
	if err != nil {
		return fmt.Errorf("the checkpoint of %s: %w", s.name, err)
	}
	return nil
}

// unwritten returns the names of the configured tables that the job has not written to.
func (rc *resumeCheck) unwritten() (names []string) {
	for i := range rc.history.declared {
		if !slices.Contains(rc.found[i].Writers, rc.cfg.Job) {
			names = append(names, rc.tables[i].Name)
		}
	}
	return names
}

// writes reports whether the job may write to its tables: it has written to all of them, or to some and the run may add
// new ones.
func (rc *resumeCheck) writes() bool {
	fresh := len(rc.unwritten())
	return fresh == 0 || fresh < rc.history.declared && (rc.cfg.Restart.AcceptSettings || rc.cfg.Restart.FromStart) || rc.history.hasWritten
}

// isOtherTable reports whether a table was replaced since a checkpoint was written for it.
func (rc *resumeCheck) isOtherTable(s start) bool { return len(rc.otherTables(&s)) > 0 }

func (rc *resumeCheck) otherTables(s *start) []*schema.Table {
	return sink.OtherTables(&s.cp, rc.found)
}

// tableNames lists the run's tables in a message.
func (rc *resumeCheck) tableNames() string {
	names := make([]string, len(rc.tables))
	for i, t := range rc.tables {
		names[i] = t.Name
	}
	return tableList(names)
}

// tableList lists tables in a message. An empty list stands for the tables that messages add.
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

// admit decides where a source continues, or returns why it cannot.
func (rc *resumeCheck) admit(s *start) error {
	rc.p.CommittedBefore(s.cp.Committed)
	if err := rc.mayContinue(s); err != nil {
		return err
	}
	if rc.cfg.Restart.FromStart && !rc.hasBegun(s) {
		if name := s.was.keyless(); name != "" && !rc.cfg.Restart.Rebuild && !rc.isOtherTable(*s) {
			return SettingsError{fmt.Sprintf("--restart reread would add all messages again to the rows of %s: %s", name, rc.howToRebuild())}
		}
		s.from = position{}
	}
	if s.from == (position{}) {
		s.cp.Mark, s.cp.Rejected = "", 0
	}
	return nil
}

// hasBegun reports whether an earlier attempt of this run committed lines of a source.
func (rc *resumeCheck) hasBegun(s *start) bool { return s.cp.Run == rc.id && !rc.isOtherTable(*s) }

// accepts reports whether a source continues under settings, or with tables, that its checkpoint may not have.
func (rc *resumeCheck) accepts(s *start) bool {
	return rc.cfg.Restart.AcceptSettings && s.from != (position{})
}

// mayContinue returns an error if the run cannot continue from a checkpoint.
func (rc *resumeCheck) mayContinue(s *start) error {
	cp, from := &s.cp, s.from
	if rc.cfg.Restart.Rebuild || from == (position{}) || cp.Settings == "" {
		return rc.keyErr
	}
	words, stale, fresh := changes(&s.was, &rc.settings, rc.cfg.Plan.Mapping().File == "")
	stale = stale && (rc.keyErr != nil || rc.cfg.Plan.Star() != nil || slices.ContainsFunc(rc.found, func(t schema.Table) bool { return t.Exists }))
	switch {
	case rc.cfg.Restart.FromStart && stale:
		return SettingsError{fmt.Sprintf("--restart reread would leave rows of the old settings in %s: %s; %s", rc.tableNames(), strings.Join(words, ", "), rc.howToRebuild())}
	case rc.cfg.Restart.FromStart:
		return rc.keyErr
	case len(words) > 0 && !rc.cfg.Restart.AcceptSettings:
		ways := []string{rc.howToRebuild()}
		if way := rc.howToFill(fresh); way != "" && rc.keyErr == nil {
			ways = append(ways, way)
		}
		if !stale && !rc.addsAgain() {
			ways = append(ways, "--restart reread reads again over the rows that exist")
		}
		if rc.keyErr == nil {
			ways = append(ways, "--accept-settings continues under the new settings")
		}
		return SettingsError{withWays(fmt.Sprintf("%s was read up to line %d with other settings: %s", s.name, from.line, strings.Join(words, ", ")), ways...)}
	case rc.keyErr != nil:
		return rc.keyErr
	}
	return rc.checkTables(s, rc.otherTables(s))
}

// checkTables returns an error if tables were replaced since a checkpoint was written for them, if that matters.
func (rc *resumeCheck) checkTables(s *start, others []*schema.Table) error {
	if rc.cfg.Restart.FromStart || s.from == (position{}) {
		return nil
	}
	for _, t := range others {
		switch {
		case !t.Exists:
			return fmt.Errorf("the table %q of this checkpoint (%s, line %d) is missing: %s", t.Name, s.name, s.from.line, rc.howToReadAgain("rebuilds it"))
		case !rc.cfg.Restart.AcceptSettings:
			return errors.New(withWays(fmt.Sprintf("table %q is not as this checkpoint (%s, line %d) left it: %s", t.Name, s.name, s.from.line, describeChanges(t)),
				rc.howToReadAgain("reads again"), "--accept-settings continues with the table as it is"))
		}
	}
	return nil
}

// addsAgain reports whether applying messages twice changes the result.
func (rc *resumeCheck) addsAgain() bool {
	return slices.ContainsFunc(rc.tables, func(t *mapping.TablePlan) bool { return t.AddsTo() != "" })
}

// howToReadAgain tells the user how to reread the sources from the start: over the existing rows if that is correct,
// else into empty tables. does completes the sentence.
func (rc *resumeCheck) howToReadAgain(does string) string {
	if rc.addsAgain() {
		return rc.howToRebuild()
	}
	return "--restart reread " + does
}

// withWays adds the ways out to what is wrong, a line for each.
func withWays(what string, ways ...string) string {
	return what + "\n  " + strings.Join(ways, "\n  ")
}

// describeChanges lists how a table may have changed: its altered columns, and causes that the database does not show.
func describeChanges(t *schema.Table) string {
	unknown := "it was dropped and recreated, or restored from a dump"
	if len(t.Altered) == 0 {
		return unknown
	}
	words := make([]string, len(t.Altered))
	for i, a := range t.Altered {
		words[i] = a.String()
	}
	return strings.Join(words, ", ") + ", or " + unknown
}

// howToRebuild tells the user how to get rid of rows of other settings.
func (rc *resumeCheck) howToRebuild() string {
	if rc.cfg.Plan.Star() != nil { // only the stream names the tables to be emptied
		return fmt.Sprintf("drop the tables that the job has made, weir forget %s, and sync again", rc.cfg.Job)
	}
	if rc.keyErr == nil && slices.ContainsFunc(rc.found, func(t schema.Table) bool { return sink.MayRebuild(&t, rc.cfg.Job) != nil }) {
		if rc.addsAgain() {
			return fmt.Sprintf("another --table, or empty %s, weir forget %s, and sync again", rc.tableNames(), rc.cfg.Job)
		}
		return fmt.Sprintf("another --table, or an empty %s and --restart reread", rc.tableNames())
	}
	return fmt.Sprintf("--restart rebuild empties %s and reads from the start", rc.tableNames())
}

// howToFill tells the user how to fill new tables. It returns "" if there are none.
func (rc *resumeCheck) howToFill(tables []string) string {
	if len(tables) == 0 || rc.addsAgain() {
		return ""
	}
	return fmt.Sprintf("--tables %s and another --job fill %s, and then --accept-settings continues", strings.Join(tables, ","), tableList(tables))
}
