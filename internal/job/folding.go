package job

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/progress"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
)

// A folding makes rows of lines in one attempt: the mapper turns a line into changes of rows, and the folders merge
// these into a set. It belongs to the reader during the attempt.
type folding struct {
	run         *run
	caps        sink.Caps
	tables      []Table        // the run's tables; those that messages added in this attempt come last
	have        []schema.Table // the tables as the database has them
	constrained bool           // a table has rejected a row
	mapper      Mapper         // nil if the fields are the columns of the only table, which identity describes
	plan        *planned       // the mapper, if it is a mapping
	identity    *fold.Mapper
	folders     fold.Folders
	adding      int    // index of the table that is being added or whose key is being set; -1: none
	before      counts // of earlier attempts
	probed      int    // messages checked for an envelope
}

// newFolding starts a fold for tables of a database. before is the folding of the previous attempt, or nil.
func (r *run) newFolding(h *history, before *folding, have []schema.Table) (f *folding, err error) {
	f = &folding{run: r, adding: -1, caps: r.db.Caps(), tables: slices.Clone(h.tables), have: slices.Clone(have), constrained: h.constrained}
	if before != nil {
		f.before, f.probed = before.counts(), before.probed
	}
	if r.cfg.Mapping.New != nil {
		if f.mapper, err = r.cfg.Mapping.New(r.names); err != nil {
			return nil, err
		}
		f.plan, _ = f.mapper.(*planned)
	}
	fitted, err := f.fit(have)
	if err != nil {
		return nil, err
	}
	for i := range fitted {
		o, err := f.options(&f.tables[i], &fitted[i])
		if err != nil {
			return nil, err
		}
		f.addFolder(&fitted[i], o)
		f.identity = fold.NewMapper(r.names, o)
	}
	f.folders.Link()
	if f.plan == nil {
		return f, nil
	}
	f.plan.log = r.cfg.Log
	if f.plan.whole != nil {
		f.plan.whole.log = r.cfg.Log
	}
	f.plan.mapper.Names = h.streamNames
	f.plan.mapper.UseColumns(func(table int) (schema.Table, bool) {
		if table == f.adding {
			return schema.Table{}, false
		}
		return f.folders[table].Table(), true
	})
	return f, f.folders.Nest(f.plan.plan)
}

// addFolder appends the folder of a table.
func (f *folding) addFolder(fitted *schema.Table, o fold.Options) {
	fitted.HasConstraints = fitted.HasConstraints || f.constrained
	f.folders = append(f.folders, fold.NewFolder(f.run.names, *fitted, o))
}

// addTable adds the folder of a table that a message added, or replaces the folder of one that had no key yet.
func (f *folding) addTable(fitted *schema.Table, o fold.Options) {
	f.addFolder(fitted, o)
	if last := len(f.folders) - 1; f.adding < last {
		f.folders[f.adding], f.folders = f.folders[last], f.folders[:last]
	}
	f.adding = -1
	if !f.run.looks {
		f.folders.Link()
	}
}

// fit returns the tables as the job wants them. The error joins the errors of all tables.
func (f *folding) fit(tables []schema.Table) ([]schema.Table, error) {
	fitted := make([]schema.Table, len(tables))
	var faults []error
	for i := range tables {
		fitted[i] = tables[i].Clone()
		if f.plan != nil {
			faults = append(faults, f.plan.same(tables[:i], tables[i].FullName))
		}
		if fit := f.tables[i].Fit; fit != nil {
			faults = append(faults, fit(&f.caps.Limits, &fitted[i]))
		}
	}
	return fitted, errors.Join(faults...)
}

// options returns the fold's options for a table of the job, as the database has it.
func (f *folding) options(of *Table, t *schema.Table) (fold.Options, error) {
	o := of.Fold
	o.Limits = f.caps.Limits
	if err := fold.CheckVersion(t, o); err != nil {
		return o, err
	}
	if err := fold.CheckMerge(t, o); err != nil {
		return o, SettingsError{err.Error()}
	}
	if t.Versioned && (o.Version == "" || o.Scope != fold.ColumnScope) {
		f.run.cfg.Log.Warn(fmt.Sprintf("table %q is kept by a version for each column; what this run writes has none, and later messages may be taken for older or newer than they are", t.Name))
	}
	if o.UnknownFields == "" {
		o.UnknownFields = fold.IgnoreUnknown
		if t.Ruled {
			f.run.cfg.Log.Info(fmt.Sprintf("table %q counts as yours since %s: it gets no new columns, and fields without one are ignored. "+
				"To add columns, undo that or use --unknown-fields add", t.Name, t.Rule()))
		}
		if t.Made || !t.Exists {
			o.UnknownFields = fold.AddUnknown
		}
	}
	o.MaxColumns = min(o.MaxColumns, max(0, f.caps.Columns-len(t.Columns)-len(o.Key)))
	o.Log = f.run.cfg.Log
	return o, nil
}

// add merges a line of a source into a set. If it fails, table is the index of the table that rejects the line, or -1.
func (f *folding) add(s *set, l *feed.Line, source string, at fold.Place) (table int, err error) {
	if l.Err != nil && !(l.Null && f.run.cfg.Mapping.Stream) {
		return f.noTable(), l.Err
	}
	if f.mapper == nil {
		c := f.identity.Map(l)
		err := f.folders.AddOnly(s.Set, &c, at)
		if err == nil {
			f.run.countNulled(c.Nulled)
		}
		return 0, err
	}
	changes, table, err := f.mapper.Map(l, source, at)
	if err != nil {
		return table, err
	}
	if table, err = f.folders.Add(s.Set, changes, at); err != nil {
		return table, err
	}
	for i := range changes {
		f.run.countNulled(changes[i].Nulled)
	}
	if f.plan != nil {
		if len(changes) > 0 {
			f.run.countNulled(f.plan.nulled)
		}
		if f.plan.resume != nil && f.run.cfg.Resume != nil {
			s.resume(f.plan.resume)
		}
		if len(changes) > 0 {
			f.plan.countLost()
		}
	}
	return table, nil
}

// noTable is the index of the table that rejects a malformed line, or -1 if there are several tables.
func (f *folding) noTable() int {
	if len(f.run.cfg.Tables) == 1 && f.run.cfg.Mapping.Star == nil {
		return 0
	}
	return -1
}

// counts are values and fields that found no column.
type counts struct {
	ignored    map[string]int64 // values by field
	mismatches map[string]int64 // values that are not the object or array that a path expects
	unmet      []progress.Unmet // fields that options name and no message had
	mapped     bool             // unmet comes from a mapping
}

// counts returns the counts of this attempt and earlier ones.
func (f *folding) counts() counts {
	c := counts{ignored: f.ignored(), mismatches: f.mismatches()}
	if f.mapper != nil {
		c.unmet, _ = f.unmet()
		c.mapped = true
	}
	return c
}

// countPassed reports the values and fields that found no table or column.
func (f *folding) countPassed(p *progress.Progress) {
	f.countUnmet()
	f.countIgnored()
	if f.plan != nil {
		p.NoteUnused(func(u *progress.Unused) { u.Passed, u.NoTable = f.plan.ignored, f.plan.noTable })
	}
}

// countIgnored counts the values that found no column, and returns the fields that the metrics have named since the
// last call.
func (f *folding) countIgnored() (fresh []string) { return f.run.p.Ignored(f.ignored()) }

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
		case field == progress.OtherFields:
			texts = append(texts, "and others")
		case unasked(field):
			texts = append(texts, strconv.Quote(field))
		}
	}
	if len(texts) > 0 {
		f.run.cfg.Log.Warn(fmt.Sprintf("ignored, without a column: %s (--unknown-fields add adds columns)", strings.Join(texts, ", ")))
	}
}

// ignored returns how many values of each field found no column.
func (f *folding) ignored() map[string]int64 {
	all := map[string]int64{}
	maps.Copy(all, f.before.ignored)
	for i, folder := range f.folders {
		for field, n := range folder.Ignored() {
			if len(f.folders) > 1 {
				field = f.tables[i].Name + "." + field
			}
			all[field] += n
		}
	}
	return all
}

// mismatches counts values that are not the object or array that a path of the mapping expects.
func (f *folding) mismatches() map[string]int64 {
	if f.plan == nil {
		return f.before.mismatches
	}
	all := f.plan.mapper.Mismatches()
	for path, n := range f.before.mismatches {
		if all == nil {
			all = map[string]int64{}
		}
		all[path] += n
	}
	return all
}

// lost returns how many values were not kept, by TABLE.COLUMN or TABLE.FIELD. nil: none.
func (f *folding) lost() map[string]int64 {
	if f.plan != nil && len(f.plan.notKept) > 0 {
		return maps.Clone(f.plan.notKept)
	}
	return nil
}
