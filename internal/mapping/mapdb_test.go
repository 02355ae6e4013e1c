package mapping_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/foldtest"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/schema"
)

// mapDB is a database of a few maps that a plan's rows are folded into.
type mapDB struct {
	t       *testing.T
	mapping *mapping.Mapping
	limits  schema.Limits
	model   *foldtest.Model
	tables  []mapTable
	plan    *mapping.Plan
	names   *feed.Names
	scan    *feed.Scanner
	scratch *mapping.Scratch
	folders fold.Folders
	set     *fold.Set
}

type mapTable struct {
	known  schema.Table
	rows   map[string]map[string]string // raw values by key and column; none is NULL
	states map[string][]byte
	names  []string
}

func newMapDB(t *testing.T, m *mapping.Mapping, textTypes bool) *mapDB {
	db := &mapDB{t: t, mapping: m, limits: schema.Limits{Untyped: true, TextTypes: textTypes}}
	db.begin()
	return db
}

// begin starts a run.
func (db *mapDB) begin() {
	db.names = &feed.Names{}
	var err error
	if db.plan, err = mapping.Compile(db.mapping, db.names, db.limits); err != nil {
		db.t.Fatal(describe(db.mapping), err)
	}
	db.scan, db.scratch = feed.NewScanner(db.names), db.plan.NewScratch()
	db.scratch.Source = "source"
	if db.set == nil {
		db.set = fold.NewSet(db.plan.Tables())
	}
	var folders fold.Folders
	for i := range db.plan.Tables() {
		if len(db.tables) <= i {
			db.tables = append(db.tables, mapTable{known: schema.Table{Name: db.plan.Table(i).Name}, rows: map[string]map[string]string{}, states: map[string][]byte{}})
		}
		known := db.tables[i].known.Clone()
		if len(db.folders) > 0 {
			known = db.folders[i].Table()
			known = known.Stored()
		}
		if err := db.plan.Fit(i, &known); err != nil {
			db.t.Fatal(err)
		}
		o := db.plan.Options(i)
		o.Log, o.MaxColumns = slog.New(slog.DiscardHandler), 1000
		folders = append(folders, fold.NewFolder(db.names, known, o))
	}
	db.folders = folders
	folders.Link()
	if err := folders.Nest(db.plan); err != nil {
		db.t.Fatal(describe(db.mapping), err)
	}
}

// sync folds lines, and returns what became of each.
func (db *mapDB) sync(lines []string, rnd *rand.Rand) (outcomes []string) {
	for i, text := range lines {
		at := fold.Place{Line: int64(i + 1), Offset: int64(10 * i)}
		outcome, split := db.line(text, at)
		if split {
			db.flush(outcomes)
			outcome, _ = db.line(text, at)
		}
		outcomes = append(outcomes, outcome)
		if i == len(lines)-1 || rnd.IntN(4) == 0 {
			db.flush(outcomes)
			if rnd.IntN(8) == 0 {
				db.begin()
			}
		}
	}
	return outcomes
}

func (db *mapDB) line(text string, at fold.Place) (outcome string, split bool) {
	var l feed.Line
	if l.Scan(db.scan, nil, []byte(text)); l.Err != nil {
		db.t.Fatal(l.Err)
	}
	rows, fate, err := db.plan.Map(&l, at, db.scratch)
	var bad *feed.Error
	switch {
	case errors.As(err, &bad):
		return "rejected", false
	case err != nil:
		db.t.Fatal(err)
	case fate == mapping.Ignored:
		return "ignored", false
	case fate == mapping.NoTable:
		return "no table", false
	}
	if _, err := db.folders.Add(db.set, rows, at); errors.As(err, &bad) {
		return "rejected", false
	} else if err == fold.ErrSplit {
		return "", true
	} else if err != nil {
		db.t.Fatal(err)
	}
	return "taken", false
}

// flush writes the set at hand, message by message if rows that are deleted are named by others.
func (db *mapDB) flush(outcomes []string) {
	db.folders.Seal(db.set)
	rows := make([][]*fold.Row, len(db.tables))
	for i, b := range db.set.Batches {
		rows[i] = b.Sorted()
	}
	if !db.write(rows) {
		for _, m := range fold.Messages(db.set.Batches) {
			if !db.write(fold.Merge(db.set.Batches, []fold.Message{m})) {
				outcomes[m.Place().Line-1] = "rejected"
			}
		}
	}
	db.set.Reset()
}

// write writes rows by table, or leaves all as it was.
func (db *mapDB) write(rows [][]*fold.Row) bool {
	before := slices.Clone(db.tables)
	for i := range before {
		t := &before[i]
		t.rows, t.states = map[string]map[string]string{}, maps.Clone(t.states)
		for key, row := range db.tables[i].rows {
			t.rows[key] = maps.Clone(row)
		}
	}
	resolvers := make([]*fold.Resolver, len(db.set.Batches))
	for i, b := range db.set.Batches {
		if b.Versioned() {
			resolvers[i] = fold.NewResolver(b, db.tables[i].names, &b.Table)
		}
	}
	for i := range db.set.Batches {
		db.writeTable(i, rows, resolvers)
	}
	if db.violated() {
		db.tables = before
		return false
	}
	return true
}

// violated reports whether a row names one that is missing.
func (db *mapDB) violated() bool {
	violated := false
	for i, b := range db.set.Batches {
		for _, ref := range b.Table.Refs {
			if ref.Owner {
				continue
			}
			name := b.Table.Columns[ref.From[0]].Name
			find := func(raw []byte) {
				key := fmt.Sprintf("%q", []string{string(feed.AppendText(nil, raw, feed.KindOf(raw)))})
				violated = violated || raw[0] != 'n' && db.tables[ref.Table].rows[key] == nil
			}
			if b.Child != nil && b.Child.Set {
				named := map[string][]byte{} // of two elements of one key the last counts
				db.eachElement(i, func(key string, r *mapping.Row) {
					for _, f := range r.Fields {
						if f.Name == db.names.Number(name) {
							named[key] = bytes.Clone(f.Value)
						}
					}
				})
				for _, raw := range named {
					find(raw)
				}
				continue
			}
			for _, row := range db.tables[i].rows {
				if raw, named := row[name]; named {
					find([]byte(raw))
				}
			}
		}
	}
	return violated
}

// take removes the rows that belong to one that a batch removes, but for those that come later.
func (db *mapDB) take(of *fold.Batch, rows []*fold.Row) {
	for i := range db.set.Batches {
		above := db.above(i, of)
		if above == nil || db.set.Batches[i].Versioned() {
			continue
		}
		for _, r := range rows {
			if !r.Deleted && !r.Replaces {
				continue
			}
			for key, row := range db.tables[i].rows {
				var values [][]byte
				for _, name := range above {
					values = append(values, []byte(row[name]))
				}
				if string(fold.AppendKey(nil, &of.Table, values)) == string(r.Key) {
					delete(db.tables[i].rows, key)
				}
			}
		}
	}
}

// above are the columns of a table that have the key of the row of a batch that its own belong to, at
// any level; nil where they belong to none.
func (db *mapDB) above(table int, of *fold.Batch) (names []string) {
	for parent, names := db.plan.Parent(table); parent >= 0; parent, _ = db.plan.Parent(parent) {
		if db.set.Batches[parent] == of {
			return names[:len(of.Table.Key)]
		}
	}
	return nil
}

// writeTable writes the rows of a table.
func (db *mapDB) writeTable(table int, all [][]*fold.Row, resolvers []*fold.Resolver) {
	t, b, resolver, rows := &db.tables[table], db.set.Batches[table], resolvers[table], all[table]
	if resolver == nil {
		for _, r := range rows {
			t.write(b, r)
		}
		db.take(b, rows)
		return
	}
	if parent, _ := db.plan.Parent(table); parent >= 0 && !b.Child.Set && resolvers[parent] != nil {
		resolver.Below(resolvers[parent])
		rows = slices.Concat(rows, db.taken(table, resolver, all))
	}
	for _, r := range rows {
		key := keyOf(b, r)
		row, found := t.rows[key]
		was := fold.Stored{Exists: found && (t.states[key] != nil || b.Scope == fold.RowScope), State: t.states[key]}
		if b.Version >= 0 && b.Scope == fold.RowScope {
			if v, set := row[b.Table.Columns[b.Version].Name]; set {
				was.Version = feed.AppendText(nil, []byte(v), feed.KindOf([]byte(v)))
			}
		}
		res, err := resolver.Resolve(r, was)
		if err != nil {
			db.t.Fatal(err)
		}
		if !res.Unchanged {
			t.write(resolver.Batch(), &res.Row)
		}
		if res.State != nil {
			t.states[key] = res.State
		}
	}
	t.names = resolver.Names()
}

// keyOf is the key of a row for all runs: [fold.Row.Key] has its parts in the order of the columns,
// which may be another one when a table is read again.
func keyOf(b *fold.Batch, r *fold.Row) string {
	parts := make([]string, len(b.Table.Key))
	for part, k := range b.Table.Key {
		raw := b.Value(r, k)
		parts[part] = string(feed.AppendText(nil, raw, feed.KindOf(raw)))
	}
	return fmt.Sprintf("%q", parts)
}

// write does what a driver does with a row.
func (t *mapTable) write(b *fold.Batch, r *fold.Row) {
	key := keyOf(b, r)
	row, exists := t.rows[key]
	if r.Deleted {
		delete(t.rows, key)
		return
	}
	if !exists || r.Replaces {
		exists, row = false, map[string]string{}
		t.rows[key] = row
	}
	for i, c := range b.Table.Columns {
		raw := b.Value(r, i)
		_, set := row[c.Name]
		switch {
		case raw == nil && b.Initial(r, i): // a late delete took it
			delete(row, c.Name)
		case raw == nil, c.Key && exists, b.FillOnly && exists && set:
		case raw[0] == 'n':
			delete(row, c.Name)
		default:
			row[c.Name] = string(raw)
		}
	}
}

// show returns the rows of a table as the model does; those of sets are exploded.
func (db *mapDB) show(name string) []string {
	table := 0
	for db.plan.Table(table).Name != name {
		table++
	}
	out := []string{}
	if db.plan.Table(table).Of == "" || db.plan.Table(table).Set == mapping.MergeSet {
		for _, row := range db.tables[table].rows {
			cells := map[string]foldtest.Value{}
			for c, raw := range row {
				cells[db.inModel(table, c)] = foldtest.MustParse(raw)
			}
			out = append(out, foldtest.Show(cells, db.model.Key(name)))
		}
	} else {
		for _, row := range db.exploded(table) {
			out = append(out, row)
		}
	}
	slices.Sort(out)
	return out
}

// inModel is the model's name for a column: one that no database has, of a key, has another there.
func (db *mapDB) inModel(of int, column string) string {
	if !mapping.Hidden(column) {
		return column
	}
	name, table, _ := strings.Cut(column[1:], " of ")
	if slices.ContainsFunc(db.plan.Table(of).Columns, func(c mapping.Column) bool { return c.Name == name && c.From[0].References == table }) {
		return name
	}
	return foldtest.KeyColumn(table, name)
}

// exploded are the rows of a table that are in sets, by their keys.
func (db *mapDB) exploded(table int) map[string]string {
	rows := map[string]string{}
	db.eachElement(table, func(key string, r *mapping.Row) {
		cells := map[string]foldtest.Value{}
		for _, f := range r.Fields {
			name := ""
			if f.Name >= 0 {
				name = db.names.Name(f.Name)
			} else {
				name = string(r.Unnumbered[^f.Name])
			}
			cells[db.inModel(table, name)] = foldtest.MustParse(string(f.Value))
		}
		rows[key] = foldtest.Show(cells, db.model.Key(db.plan.Table(table).Name))
	})
	return rows
}

// eachElement calls each with the rows of a table that are in sets, and their keys.
func (db *mapDB) eachElement(table int, each func(key string, r *mapping.Row)) {
	top := table
	for db.plan.SetColumn(top) == "" {
		top, _ = db.plan.Parent(top)
	}
	parent, _ := db.plan.Parent(top)
	text := func(of int, c *fold.Change) string {
		parts := make([]string, len(db.plan.Options(of).Key))
		for i, k := range db.plan.Options(of).Key {
			for _, f := range c.Fields {
				if f.Name == db.names.Number(k) {
					parts[i] = string(feed.AppendText(nil, f.Value, f.Kind))
				}
			}
		}
		return fmt.Sprintf("%q", parts)
	}
	explode := db.plan.Exploder(text)
	for _, row := range db.tables[parent].rows {
		set, ok := row[db.plan.SetColumn(top)]
		if !ok {
			continue
		}
		var key [][]byte
		for _, k := range db.plan.Options(parent).Key {
			key = append(key, []byte(row[k]))
		}
		if err := explode(top, key, []byte(set), func(r *mapping.Row) error {
			if r.Table == table {
				each(text(table, &r.Change), r)
			}
			return nil
		}); err != nil {
			db.t.Fatal(err)
		}
	}
}
