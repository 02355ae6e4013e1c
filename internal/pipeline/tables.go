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
	all         []Table        // the run's tables; those that messages added in this attempt come last
	have        []schema.Table // the tables as the database has them
	constrained bool           // all batches keep their messages
	mapper      *mapping.Mapper
	whole       *mapping.Mapper // of the mapping that the run's was selected from; nil: that one is complete
	folders     fold.Folders
	probed      int // messages checked for an envelope
}

// newTables returns the tables of an attempt, with a folder for each. have are the tables as in the database. before
// are the tables of the previous attempt, or nil.
func (r *run) newTables(h *history, before *tables, have []schema.Table) (f *tables, err error) {
	f = &tables{run: r, caps: r.db.Caps(), all: slices.Clone(h.tables), have: slices.Clone(have), constrained: h.constrained}
	if before != nil {
		before.noteAll()
		f.probed = before.probed
	}
	f.mapper = r.cfg.plan.NewMapper()
	if r.cfg.whole != nil {
		f.whole = r.cfg.whole.NewMapper()
	}
	if r.cfg.Restart.Rebuild && !h.hasWritten {
		have = slices.Clone(have)
		for i := range have {
			have[i] = have[i].Clone()
			have[i].Renew()
		}
	}
	fitted, err := f.fit(have)
	if err != nil {
		return nil, err
	}
	for i := range fitted {
		o, err := f.options(&f.all[i], &fitted[i])
		if err != nil {
			return nil, err
		}
		f.folders = append(f.folders, f.newFolder(&fitted[i], o))
	}
	f.folders.Link()
	for i := range f.all {
		if parent, _ := f.cfg.plan.Parent(i); parent >= 0 && !f.caps.Children {
			return nil, sink.LacksError{Does: "write child tables"}
		}
	}
	f.mapper.Names = h.streamNames
	f.mapper.UseColumns(func(table int) schema.Table { return f.folders[table].Table() })
	return f, f.folders.Nest(f.cfg.plan)
}

func (f *tables) newFolder(fitted *schema.Table, o fold.Options) *fold.Folder {
	fitted.HasConstraints = fitted.HasConstraints || f.constrained
	return fold.NewFolder(f.names, *fitted, o)
}

// addTable adds the folder of a table that a message added, or replaces the folder of one that had no key yet.
func (f *tables) addTable(t *addition) {
	if t.at == len(f.folders) {
		f.folders = append(f.folders, nil)
	}
	f.folders[t.at] = f.newFolder(&t.fitted, t.rules)
	if !f.dryRun {
		f.folders.Link()
	}
}

// fit returns the tables as the job wants them. The error joins the errors of all tables.
func (f *tables) fit(tables []schema.Table) ([]schema.Table, error) {
	fitted := make([]schema.Table, len(tables))
	var faults []error
	for i := range tables {
		fitted[i] = tables[i].Clone()
		faults = append(faults, f.same(tables[:i], tables[i].FullName), f.cfg.plan.Fit(i, &fitted[i]))
	}
	return fitted, errors.Join(faults...)
}

// same returns an error if a table is another name of one of the tables before it.
func (f *tables) same(before []schema.Table, fullName string) error {
	at := slices.IndexFunc(before, func(t schema.Table) bool { return t.FullName == fullName })
	if at < 0 || fullName == "" { // it was not looked up in a database
		return nil
	}
	of := f.cfg.plan.Table(len(before))
	return &mapping.Fault{File: f.cfg.plan.Mapping().File, Pos: of.Pos, Text: fmt.Sprintf("%q and %q are one table of the database: make them one table here", f.cfg.plan.Table(at).Name, of.Name)}
}

// options returns the fold's options for a table of the job, as the database has it.
func (f *tables) options(of *Table, t *schema.Table) (fold.Options, error) {
	o := of.Fold
	o.Limits = f.caps.Limits
	if err := errors.Join(fold.CheckVersion(t, o), fold.CheckMerge(t, o)); err != nil {
		return o, SettingsError{err.Error()}
	}
	for name, merges := range o.Merge {
		if t.Exists && o.Limits.Find(t, name, 0) < 0 {
			f.cfg.Log.Info(fmt.Sprintf("table %q has no column %q yet, which is to merge by %s", t.Name, name, merges))
		}
	}
	if t.Versioned && (o.Version == "" || o.Scope != fold.ColumnScope) {
		f.cfg.Log.Warn(fmt.Sprintf("table %q is kept by a version for each column; what this run writes has none, and later messages may be taken for older or newer than they are", t.Name))
	}
	if o.UnknownFields == "" {
		o.UnknownFields = fold.IgnoreUnknown
		if t.Ruled {
			f.cfg.Log.Info(fmt.Sprintf("table %q counts as yours since it has a constraint, default or trigger of others: it gets no new columns, and fields without one are ignored. "+
				"To add columns, undo that or use --unknown-fields add", t.Name))
		}
		if t.Made || !t.Exists {
			o.UnknownFields = fold.AddUnknown
		}
	}
	o.MaxColumns = min(o.MaxColumns, max(0, f.caps.Columns-len(t.Columns)-len(o.Key)))
	o.Log = f.cfg.Log
	return o, nil
}

// foldLine merges a line of a source into a set. If it fails, table is the index of the table that rejects the line, or -1.
func (f *tables) foldLine(s *set, l *feed.Line, source string, at fold.Place) (table int, err error) {
	if l.Err != nil && !(l.Null && f.cfg.plan.Mapping().Envelope != nil) {
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
	if f.whole != nil {
		r, err := f.whole.Map(l, source, at)
		if err == nil {
			f.notePassed(r)
		}
		if err != nil || len(r.Rows) == 0 {
			r.Rows, r.Table = nil, -1 // the table may not be part of this run
			return r, err
		}
	}
	r, err := f.mapper.Map(l, source, at)
	if err == nil && f.whole == nil { // otherwise whole has counted it
		f.notePassed(r)
	}
	return r, err
}

// warm is [fold.Folder.Warm] if fields are columns.
func (f *tables) warm(s *set, lines []feed.Line, at int) {
	if f.cfg.plan.IsPlain() {
		f.folders[0].Warm(s.Batches[0], lines, at)
	}
}

// noTable is the index of the table that rejects a malformed line, or -1 if there are several tables.
func (f *tables) noTable() int {
	if len(f.cfg.Tables) == 1 && f.cfg.Star == nil {
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
