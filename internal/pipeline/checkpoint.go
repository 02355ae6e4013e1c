package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/source"
)

// A SettingsError says why a run cannot continue from a checkpoint with its settings.
type SettingsError struct{ What string }

func (e SettingsError) Error() string { return e.What }

// ExitCode returns the exit code of wrong usage.
func (e SettingsError) ExitCode() int { return 2 }

// An admission decides from which checkpoints an attempt may continue. It does not change during the attempt.
type admission struct {
	*run
	tables     []Table        // the run's tables
	declared   int            // how many of them are configured; messages added the rest
	found      []schema.Table // the tables as the database has them
	keyErr     error          // why a table cannot have the configured key
	settings   settings       // the run's settings
	hasWritten bool           // an earlier attempt wrote to the tables
}

// admitAll reads the checkpoints of the lanes and returns where each lane continues. It returns an error, before
// anything is written, if the run must not continue from one of them.
func (a *attempt) admitAll(ctx context.Context, lanes []string) ([]start, error) {
	starts := make([]start, 0, len(lanes))
	var names []string
	for _, name := range lanes {
		if a.history.fences.isLost(name) {
			continue
		}
		s := a.admission.startOf(name)
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
	if ad := a.admission; slices.ContainsFunc(starts, ad.isOtherTable) || ad.isOtherTable(a.latest) || len(tables) > 0 && !ad.writes() {
		now, err := a.begin(ctx, a.history, a.folding)
		if err != nil {
			return nil, err
		}
		a.admission, a.folding, a.settings = now.admission, now.folding, now.settings
	}
	return starts, a.admission.admitAll(starts, &a.latest, tables)
}

// admitAll decides where the sources continue, or returns why one cannot. latest is the job's most recent checkpoint,
// and tables are the tables that the job has written to.
func (ad *admission) admitAll(starts []start, latest *start, tables []string) error {
	fresh := ad.unwritten()
	otherJob := SettingsError{fmt.Sprintf("job %q is for %s: a run into %s needs a job of its own (--job NAME)", ad.cfg.Job, tableList(tables), ad.tableNames())}
	if len(tables) > 0 && !ad.writes() && len(fresh) == ad.declared {
		return otherJob
	}
	for i := range starts {
		if err := ad.admit(&starts[i]); err != nil {
			return err
		}
	}
	if err := ad.checkTables(latest, ad.otherTables(latest)); err != nil {
		return err
	}
	if len(tables) > 0 && !ad.writes() { // no checkpoint names the job's tables
		if way := ad.howToFill(fresh); way != "" {
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
func (ad *admission) startOf(name string) start {
	is := ad.cfg.Kind.Type(name)
	s := start{name: name, is: is, unnamed: is == source.Stdin && !ad.cfg.ResumeStdin}
	switch {
	case s.unnamed || !is.Rewindable() && !ad.cfg.Feed.resumes(is):
	case is == source.Stdin:
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
func (ad *admission) unwritten() (names []string) {
	for i := range ad.declared {
		if !slices.Contains(ad.found[i].Writers, ad.cfg.Job) {
			names = append(names, ad.tables[i].Name)
		}
	}
	return names
}

// writes reports whether the job may write to its tables: it has written to all of them, or to some and the run may add
// new ones.
func (ad *admission) writes() bool {
	fresh := len(ad.unwritten())
	return fresh == 0 || fresh < ad.declared && (ad.cfg.Restart.AcceptSettings || ad.cfg.Restart.FromStart) || ad.hasWritten
}

// isOtherTable reports whether a table was replaced since a checkpoint was written for it.
func (ad *admission) isOtherTable(s start) bool { return len(ad.otherTables(&s)) > 0 }

func (ad *admission) otherTables(s *start) []*schema.Table {
	return sink.OtherTables(&s.cp, ad.found)
}

// tableNames lists the run's tables in a message.
func (ad *admission) tableNames() string {
	names := make([]string, len(ad.tables))
	for i := range names {
		names[i] = ad.tables[i].Name
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
func (ad *admission) admit(s *start) error {
	ad.p.CommittedBefore(s.cp.Committed)
	if err := ad.mayContinue(s); err != nil {
		return err
	}
	if ad.cfg.Restart.FromStart && !ad.hasBegun(s) {
		if name := s.was.keyless(); name != "" && !ad.cfg.Restart.Rebuild && !ad.isOtherTable(*s) {
			return SettingsError{fmt.Sprintf("--restart reread would add all messages again to the rows of %s: %s", name, ad.howToRebuild())}
		}
		s.from = position{}
	}
	if s.from == (position{}) {
		s.cp.Mark, s.cp.Rejected = "", 0
	}
	return nil
}

// hasBegun reports whether an earlier attempt of this run committed lines of a source.
func (ad *admission) hasBegun(s *start) bool { return s.cp.Run == ad.id && !ad.isOtherTable(*s) }

// accepts reports whether a source continues under settings, or with tables, that its checkpoint may not have.
func (ad *admission) accepts(s *start) bool {
	return ad.cfg.Restart.AcceptSettings && s.from != (position{})
}

// mayContinue returns an error if the run cannot continue from a checkpoint.
func (ad *admission) mayContinue(s *start) error {
	cp, from := &s.cp, s.from
	if ad.cfg.Restart.Rebuild || from == (position{}) || cp.Settings == "" {
		return ad.keyErr
	}
	words, stale, fresh := changes(&s.was, &ad.settings, ad.cfg.plan.Mapping().File == "")
	stale = stale && (ad.keyErr != nil || ad.cfg.Star != nil || slices.ContainsFunc(ad.found, func(t schema.Table) bool { return t.Exists }))
	switch {
	case ad.cfg.Restart.FromStart && stale:
		return SettingsError{fmt.Sprintf("--restart reread would leave rows of the old settings in %s: %s; %s", ad.tableNames(), strings.Join(words, ", "), ad.howToRebuild())}
	case ad.cfg.Restart.FromStart:
		return ad.keyErr
	case len(words) > 0 && !ad.cfg.Restart.AcceptSettings:
		ways := []string{ad.howToRebuild()}
		if way := ad.howToFill(fresh); way != "" && ad.keyErr == nil {
			ways = append(ways, way)
		}
		if !stale && !addsAgain(ad.tables) {
			ways = append(ways, "--restart reread reads again over the rows that exist")
		}
		if ad.keyErr == nil {
			ways = append(ways, "--accept-settings continues under the new settings")
		}
		return SettingsError{withWays(fmt.Sprintf("%s was read up to line %d with other settings: %s", s.name, from.line, strings.Join(words, ", ")), ways...)}
	case ad.keyErr != nil:
		return ad.keyErr
	}
	return ad.checkTables(s, ad.otherTables(s))
}

// checkTables returns an error if tables were replaced since a checkpoint was written for them, if that matters.
func (ad *admission) checkTables(s *start, others []*schema.Table) error {
	if ad.cfg.Restart.FromStart || s.from == (position{}) {
		return nil
	}
	for _, t := range others {
		switch {
		case !t.Exists:
			return fmt.Errorf("the table %q of this checkpoint (%s, line %d) is missing: %s", t.Name, s.name, s.from.line, ad.howToReadAgain("rebuilds it"+ad.once("--restart", "reread")))
		case !ad.cfg.Restart.AcceptSettings:
			return errors.New(withWays(fmt.Sprintf("table %q is not as this checkpoint (%s, line %d) left it: %s", t.Name, s.name, s.from.line, describeChanges(t)),
				ad.howToReadAgain("reads again"), "--accept-settings continues with the table as it is"+ad.once("--accept-settings")))
		}
	}
	return nil
}

// howToReadAgain tells the user how to reread the sources from the start: over the existing rows if that is correct,
// else into empty tables. does completes the sentence.
func (ad *admission) howToReadAgain(does string) string {
	if addsAgain(ad.tables) {
		return ad.howToRebuild()
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

// once returns ": " and the run's command with one more flag, or "".
func (ad *admission) once(flag ...string) string {
	if ad.cfg.Restart.Again == nil {
		return ""
	}
	return ": " + ad.cfg.Restart.Again(flag...)
}

// howToRebuild tells the user how to get rid of rows of other settings.
func (ad *admission) howToRebuild() string {
	if ad.cfg.Star != nil { // only the stream names the tables to be emptied
		return fmt.Sprintf("drop the tables that the job has made, weir forget %s, and sync again", ad.cfg.Job)
	}
	if ad.keyErr == nil && slices.ContainsFunc(ad.found, func(t schema.Table) bool { return sink.MayRebuild(&t, ad.cfg.Job) != nil }) {
		if addsAgain(ad.tables) {
			return fmt.Sprintf("another --table, or empty %s, weir forget %s, and sync again", ad.tableNames(), ad.cfg.Job)
		}
		return fmt.Sprintf("another --table, or an empty %s and --restart reread", ad.tableNames())
	}
	return fmt.Sprintf("--restart rebuild empties %s and reads from the start", ad.tableNames())
}

// howToFill tells the user how to fill new tables. It returns "" if there are none.
func (ad *admission) howToFill(tables []string) string {
	if len(tables) == 0 || ad.cfg.Restart.Backfill == nil {
		return ""
	}
	return fmt.Sprintf("%s fills %s, and then --accept-settings continues", ad.cfg.Restart.Backfill(tables), tableList(tables))
}
