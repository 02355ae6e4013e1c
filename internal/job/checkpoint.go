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
	"time"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink"
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
	f := &c.Fold
	deletes := ""
	if f.DeleteField != "" {
		deletes = f.DeleteField + "=" + f.DeleteValue
	}
	scope := ""
	if f.Version != "" {
		scope = string(f.Scope)
	}
	text, err := json.Marshal(map[string]string{
		"key": strings.Join(slices.Sorted(slices.Values(f.Key)), ","), "null": string(cmp.Or(f.Null, fold.ClearNull)), "delete-when": deletes, "fill-only": strconv.FormatBool(f.FillOnly),
		"version-field": f.Version, "version-scope": scope, "new-columns": string(f.Columns),
		"max-columns": strconv.Itoa(f.MaxColumns), "max-line": strconv.Itoa(c.Source.MaxLine),
	})
	return string(text), err
}

// rebuildOnly are the settings that can change only with an empty table: old rows or values
// would stay.
var rebuildOnly = []string{"key", "fill-only"}

// changes returns the settings that differ from those of a checkpoint, and words for them.
func changes(was, now string) (names, words []string, err error) {
	var old, new map[string]string
	if err := errors.Join(json.Unmarshal([]byte(was), &old), json.Unmarshal([]byte(now), &new)); err != nil {
		return nil, nil, fmt.Errorf("reading the settings of the checkpoint: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(new)) {
		if old[name] != new[name] {
			names = append(names, name)
			words = append(words, fmt.Sprintf("--%s was %s and is %s", name, orNone(old[name]), orNone(new[name])))
		}
	}
	return names, words, nil
}

func orNone(value string) string {
	if value == "" {
		return "not set"
	}
	return strconv.Quote(value)
}

// writes reports whether a job has written to the table.
func (r *run) writes(job string) bool { return slices.Contains(r.table.Writers, job) || r.wrote[job] }

// admitAll claims all sources once: where the run must not continue from a checkpoint of
// one, it ends before it has written what others hold.
func (r *run) admitAll(ctx context.Context) error {
	if len(r.Sources) == 1 {
		return nil
	}
	for _, spec := range r.Sources {
		job, name, err := r.job(spec)
		if err == nil {
			_, _, _, err = r.claim(ctx, job, name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// claim claims a job for one of its sources, and reads from where it continues; see admit.
func (r *run) claim(ctx context.Context, job, name string) (cp sink.Checkpoint, from position, accepted bool, err error) {
	if cp, err = r.db.Claim(ctx, job, name); err != nil {
		return cp, from, false, fmt.Errorf("job %q: %w", job, err)
	}
	if cp.Seq > 0 && (cp.TableID != "" && cp.TableID != r.table.ID || !r.writes(job)) {
		// The last commit of a run that was killed may have come after the table was read.
		if err := r.begin(ctx); err != nil {
			return cp, from, false, err
		}
	}
	if from, err = positionOf(cp); err != nil {
		return cp, from, false, fmt.Errorf("the checkpoint of job %q and %s: %w", job, name, err)
	}
	accepted, err = r.admit(job, name, cp, from)
	return cp, from, accepted, err
}

// admit reports why a run cannot continue from a checkpoint that it has claimed, which says
// that the source be resumed at from. accepted tells that it continues by --accept-settings.
func (r *run) admit(job, name string, cp sink.Checkpoint, from position) (accepted bool, err error) {
	table := r.Table
	if cp.Seq > 0 && cp.Table != "" && !r.writes(job) {
		return false, SettingsError{fmt.Sprintf("job %q is for table %q: a run into table %q needs a job of its own (--job NAME)", job, cp.Table, table)}
	}
	if r.Rebuild || from == (position{}) || cp.Settings == "" {
		return false, r.keyErr
	}
	names, words, err := changes(cp.Settings, r.settings)
	if err != nil {
		return false, err
	}
	exists := r.table.Exists || r.keyErr != nil
	stale := exists && slices.ContainsFunc(names, func(s string) bool { return slices.Contains(rebuildOnly, s) })
	rebuild := fmt.Sprintf("--rebuild empties table %q and reads from the start", table)
	if f := (&sink.Flush{Rebuild: r.jobs}); r.keyErr == nil && f.MayRebuild(&r.table) != nil {
		rebuild = fmt.Sprintf("another --table, or an empty table %q and --from-start", table)
	}
	switch {
	case r.FromStart && stale:
		return false, SettingsError{fmt.Sprintf("--from-start would leave rows of the old settings in table %q: %s; %s", table, strings.Join(words, ", "), rebuild)}
	case r.FromStart:
		return false, r.keyErr
	case len(names) > 0 && !r.AcceptSettings:
		ways := []string{rebuild}
		if !stale {
			ways = append(ways, "--from-start reads again over the rows that exist")
		}
		if r.keyErr == nil {
			ways = append(ways, "--accept-settings continues under the new settings")
		}
		return false, SettingsError{fmt.Sprintf("%s was read up to line %d with other settings: %s (%s)", name, from.line, strings.Join(words, ", "), strings.Join(ways, "; "))}
	case r.keyErr != nil:
		return false, r.keyErr
	case cp.TableID != "" && !r.table.Exists:
		return false, fmt.Errorf("the table %q of this checkpoint (%s, line %d) is missing: --from-start rebuilds it", table, name, from.line)
	case cp.TableID != "" && cp.TableID != r.table.ID && !r.AcceptSettings:
		return false, fmt.Errorf("table %q is not as this checkpoint (%s, line %d) left it: it was dropped and recreated, restored from a dump, lost columns, or is unlogged and the server crashed (--from-start reads again; --accept-settings continues with the table as it is)", table, name, from.line)
	}
	return len(names) > 0 || cp.TableID != "" && cp.TableID != r.table.ID, nil
}

// write writes an empty batch, for what a flush does beside its rows: it keeps settings that
// were accepted, or empties a table that nothing is read into.
func (r *run) write(ctx context.Context, job, name string, cp sink.Checkpoint) error {
	batch := &r.batches[0]
	batch.Reset()
	r.folder.Seal(batch)
	cp.Settings = r.settings
	f := &sink.Flush{Batch: batch, Job: job, Source: name, Checkpoint: cp, Run: r.id, Rebuild: r.rebuilding()}
	f.BeforeCommit = func(rejects []fold.Reject, cp *sink.Checkpoint) error { return r.Rejects.write(f, rejects, cp) }
	start := time.Now()
	if _, err := r.db.Flush(ctx, f); err != nil {
		return err
	}
	return r.flushed(f, start)
}

// rebuilding returns the jobs of the run where its next flush has to empty the table.
func (r *run) rebuilding() []string {
	if r.Rebuild && !r.rebuilt {
		return r.jobs
	}
	return nil
}

// flushed notes what a flush that began at start has done beside its rows.
func (r *run) flushed(f *sink.Flush, start time.Time) error {
	r.wrote[f.Job] = true
	r.rebuilt = r.rebuilt || len(f.Rebuild) > 0
	if !f.DropRejects.IsZero() {
		r.pruned = start
	}
	return r.Rejects.committed(f)
}
