package sqlite

import (
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/fold/schema"
)

// statements write a table's rows one by one. The connection keeps them until the next flush. Each is reset before
// another one writes, so none sees the table change under it.
type statements struct {
	c      *conn
	layout *layout
	// exact makes statements name only the columns that change, for tables where naming more has effects: triggers,
	// defaults, indexes. For other tables one statement for all rows saves preparing many.
	exact  bool
	sel    *stmt // the row looked up last, until reset; nil if rows have no key
	del    *stmt // the same
	insert *stmt // of all columns; nil if exact
	update *stmt // of the columns in set; nil if exact
	set    []int
	groups [groupKinds]group
}

// A group is a statement that writes several rows at once, none of which was looked up.
type group struct {
	columns []int
	sql     string // "": not needed yet
}

// The kinds of groups.
const (
	sparseGroup = iota // an upsert of rows that name some columns each, without nulls
	equalGroup         // an upsert of rows that name the same columns, of which some may be null
	newGroup           // an insert of rows that seem to be new
	groupKinds
)

func (c *conn) prepareStatements(l *layout, exact bool) (s statements, err error) {
	s = statements{c: c, layout: l, exact: exact}
	if !l.b.Table.Appends() {
		if s.sel, err = c.prepare(l.selectSQL()); err != nil {
			return s, err
		}
		if s.del, err = c.prepare("DELETE FROM " + quote(l.table.Name) + l.where(0)); err != nil {
			return s, err
		}
	}
	if exact {
		return s, nil
	}
	if s.insert, err = c.prepare(l.insertSQL(l.columns, 1)); err != nil || l.b.Table.Appends() {
		return s, err
	}
	s.set = l.withoutKey(l.columns)
	if len(s.set) > 0 {
		s.update, err = c.prepare(l.updateSQL(s.set))
	}
	return s, err
}

// forget resets the lookup of a row.
func (s *statements) forget() {
	if s.sel != nil {
		s.sel.reset()
	}
}

func (s *statements) runDelete(vals []value) error {
	s.sel.reset()
	if err := s.layout.bindKey(s.del, 0, vals); err != nil {
		return err
	}
	return s.del.run()
}

// runInsert inserts a new row, with its stamps.
func (s *statements) runInsert(vals []value) (err error) {
	s.forget()
	s.layout.stamp(vals)
	insert, columns := s.insert, s.layout.columns
	if s.exact {
		columns = make([]int, 0, len(columns))
		for _, i := range s.layout.columns {
			if vals[i].kind != 0 && !vals[i].late {
				columns = append(columns, i)
			}
		}
		if insert, err = s.c.prepareVariant(s.layout.insertSQL(columns, 1)); err != nil {
			return err
		}
	}
	insert.clear()
	if err := s.layout.bindRow(insert, 0, columns, vals); err != nil {
		return err
	}
	return insert.run()
}

// runUpdate sets columns of the row that was looked up.
func (s *statements) runUpdate(vals []value, columns []int) (err error) {
	update := s.update
	if s.exact {
		update, err = s.c.prepareVariant(s.layout.updateSQL(columns))
		if err != nil {
			return err
		}
	} else {
		columns = s.set
	}
	for n, i := range columns {
		if vals[i].kind == 0 { // unchanged
			err = update.bindFrom(n+1, s.sel, i)
		} else {
			err = update.bindValue(n+1, &vals[i])
		}
		if err != nil {
			return err
		}
	}
	if err := s.layout.bindKey(update, len(columns), vals); err != nil {
		return err
	}
	s.sel.reset()
	return update.run()
}

// runReset sets columns of the row that was looked up, some of them to their defaults: the insert does not name these.
// A column that vals lacks keeps its value.
func (s *statements) runReset(vals []value, insert, set []int) error {
	l := s.layout
	reset, err := s.c.prepareVariant(l.upsertSQL(l.insertSQL(insert, 1), l.target(), set, false))
	if err != nil {
		return err
	}
	for n, i := range insert {
		if vals[i].kind == 0 {
			err = reset.bindFrom(n+1, s.sel, i)
		} else {
			err = reset.bindValue(n+1, &vals[i])
		}
		if err != nil {
			return err
		}
	}
	s.sel.reset()
	return reset.run()
}

// group prepares the statement of a kind for rows of which first is one.
func (s *statements) group(kind int, first []value) *group {
	g, l := &s.groups[kind], s.layout
	lacks := func(i int) bool {
		return kind == equalGroup && first[i].kind == 0 && l.b.Table.Columns[i].Stamp == schema.NoStamp
	}
	columns := slices.DeleteFunc(slices.Clone(l.columns), lacks)
	if g.sql != "" && slices.Equal(columns, g.columns) {
		return g
	}
	g.columns = columns
	insert := l.insertSQL(g.columns, manyRows)
	if kind == newGroup { // whatever the table does about a conflict
		g.sql = "INSERT OR ABORT" + strings.TrimPrefix(insert, "INSERT")
	} else {
		g.sql = l.upsertSQL(insert, "", l.withoutKey(g.columns), kind == sparseGroup)
	}
	return g
}

// runGroup writes several rows, and returns how many it inserted and updated.
func (s *statements) runGroup(kind int, rows *rowBuffer) (inserted, updated int64, err error) {
	g := s.group(kind, rows.row(0))
	run, err := s.c.prepareVariant(g.sql)
	if err != nil {
		return 0, 0, err
	}
	s.c.bound.release()
	run.clear()
	for n := range manyRows {
		row := rows.row(n)
		s.layout.stamp(row)
		if err := s.layout.bindRow(run, n*len(g.columns), g.columns, row); err != nil {
			return 0, 0, err
		}
	}
	before := *s.c.inserted
	if err := run.run(); err != nil {
		return 0, 0, err
	}
	written := int64(s.c.changes())
	if kind == newGroup { // also of a table without a rowid
		return written, 0, nil
	}
	inserted = *s.c.inserted - before
	return inserted, written - inserted, nil
}
