package pipeline

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/sink"
)

// tables make rows of lines in one attempt: the mapper turns a line into changes of rows, and the folders merge
// these into a set. They belong to the reader during the attempt.
type tables struct {
	*run
	caps        sink.Caps
	have        []schema.Table // the tables as the database has them; those that messages added in this attempt come last
	constrained bool           // all batches keep their messages
	mapper      *mapping.Mapper
	folders     fold.Folders
	probed      int // messages checked for an envelope
}

// newTables returns the tables of an attempt, with a folder for each. have are the tables as in the database. before
// are the tables of the previous attempt, or nil.
func (r *run) newTables(h *history, before *tables, have []schema.Table) (f *tables, err error) {
	f = &tables{run: r, caps: r.db.Caps(), have: slices.Clone(have), constrained: h.constrained}
	if before != nil {
		before.noteAll()
		f.probed = before.probed
	}
	f.mapper = r.cfg.Plan.NewMapper()
	var faults []error
	for i := range have {
		t := have[i].Clone()
		if r.cfg.Restart.Rebuild && !h.hasWritten {
			t.Renew()
		}
		o, err := r.cfg.Plan.Fit(i, &t)
		if faults = append(faults, err); err == nil {
			f.folders = append(f.folders, f.newFolder(i, &t, o))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	f.folders.Link()
	for i := range r.cfg.Plan.Tables {
		if r.cfg.Plan.Nested(i).Parent >= 0 && !f.caps.Children {
			return nil, sink.LacksError{Does: "write child tables"}
		}
	}
	f.mapper.Names = h.streamNames
	f.mapper.UseColumns(func(table int) schema.Table { return f.folders[table].Table() })
	f.folders.Nest(f.cfg.Plan)
	return f, nil
}

// tableKeys returns the tables and their keys as the database has them.
func tableKeys(tables []*mapping.TablePlan) []sink.TableKey {
	keys := make([]sink.TableKey, len(tables))
	for i, t := range tables {
		keys[i] = sink.TableKey{Name: t.Name, Key: t.StoredKey()}
	}
	return keys
}

// newFolder returns the folder of a table that was fitted, and logs what else the user may want to know of it.
func (f *tables) newFolder(table int, fitted *schema.Table, o fold.Options) *fold.Folder {
	for name, merges := range o.Merge {
		if fitted.Exists && o.Limits.Find(fitted, name, 0) < 0 {
			f.cfg.Log.Info(fmt.Sprintf("table %q has no column %q yet, which is to merge by %s", fitted.Name, name, merges))
		}
	}
	if fitted.Versioned && (o.Version == "" || o.Scope != fold.ColumnScope) {
		f.cfg.Log.Warn(fmt.Sprintf("table %q is kept by a version for each column; what this run writes has none, and later messages may be taken for older or newer than they are", fitted.Name))
	}
	if fitted.Ruled && f.cfg.Plan.Tables[table].Options.UnknownFields == "" {
		f.cfg.Log.Info(fmt.Sprintf("table %q counts as yours since it has a constraint, default or trigger of others: it gets no new columns, and fields without one are ignored. "+
			"To add columns, undo that or use --unknown-fields add", fitted.Name))
	}
	o.Log, o.MaxColumns = f.cfg.Log, min(o.MaxColumns, max(0, f.caps.Columns-len(fitted.Columns)-len(o.Key)))
	fitted.HasConstraints = fitted.HasConstraints || f.constrained
	return fold.NewFolder(f.names, *fitted, o)
}

// addTable adds the folder of a table that a message added, or replaces the folder of one that had no key yet.
func (f *tables) addTable(t *addition) {
	if t.at == len(f.folders) {
		f.folders = append(f.folders, nil)
	}
	f.folders[t.at] = f.newFolder(t.at, &t.fitted, t.rules)
	if !f.dryRun {
		f.folders.Link()
	}
}

// foldLine merges a line of a source into a set. If it fails, table is the index of the table that rejects the line, or -1.
func (f *tables) foldLine(s *set, l *feed.Line, source string, at fold.Place) (table int, err error) {
	if l.Err != nil && !(l.Null && f.cfg.Plan.Mapping().Envelope != nil) {
		return f.noTable(), l.Err
	}
	r, err := f.result(l, source, at)
	if err != nil {
		return r.Table, err
	}
	if table, err = f.folders.Add(s.Set, r.Rows, at); err != nil {
		return table, err
	}
	if r.Resume != nil && f.cfg.Resume != nil {
		s.resume(r.Resume)
	}
	return table, nil
}

// result returns what a line does. The line was scanned without an error, or is null in a stream. source is the name of
// its source. A [*feed.Error] rejects the line; any other error ends the run. The result is valid until the next call.
func (f *tables) result(l *feed.Line, source string, at fold.Place) (*mapping.Result, error) {
	r, err := f.mapper.Map(l, source, at)
	if err == nil {
		f.notePassed(r)
	}
	return r, err
}

// warm is [fold.Folder.Warm] if fields are columns.
func (f *tables) warm(s *set, lines []feed.Line, at int) {
	if f.cfg.Plan.IsPlain() {
		f.folders[0].Warm(s.Batches[0], lines, at)
	}
}

// noTable is the index of the table that rejects a malformed line, or -1 if there are several tables.
func (f *tables) noTable() int {
	if len(f.cfg.Plan.Tables) == 1 && f.cfg.Plan.Star() == nil {
		return 0
	}
	return -1
}

// noteAll reports what this attempt did not store as it came.
func (f *tables) noteAll() {
	f.noteUnmet()
	f.noteIgnored()
	f.noteMismatches()
}
