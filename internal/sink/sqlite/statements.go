package sqlite

import "slices"

// statements write the rows of a table one by one. The connection keeps them until the next flush; each is reset before
// another one writes, so that none sees the table change under it.
type statements struct {
	c      *conn
	layout *layout
	// exact has statements name only the columns that change, for tables where naming more would show: triggers,
	// defaults, indexes. For other tables one statement for all rows saves preparing many.
	exact  bool
	sel    *stmt // the row that was looked up last, until reset
	del    *stmt
	insert *stmt // of all columns; nil if exact
	update *stmt // of those in set; nil if exact
	set    []int
	many   string // SQL that inserts as many rows as a buffer has; "": not needed yet
}

func (c *conn) prepareStatements(l *layout, exact bool) (s statements, err error) {
	s = statements{c: c, layout: l, exact: exact}
	if s.sel, err = c.prepare(l.selectSQL()); err != nil {
		return s, err
	}
	if s.del, err = c.prepare(l.deleteSQL()); err != nil || exact {
		return s, err
	}
	if s.insert, err = c.prepare(l.insertSQL(l.columns, 1) + " ON CONFLICT DO NOTHING"); err != nil {
		return s, err
	}
	s.set = slices.DeleteFunc(slices.Clone(l.columns), func(i int) bool { return l.b.Table.Columns[i].Key })
	if len(s.set) > 0 {
		s.update, err = c.prepare(l.updateSQL(s.set))
	}
	return s, err
}

func (s *statements) runDelete(vals []value) error {
	s.sel.reset()
	if err := s.layout.bindKey(s.del, 0, vals); err != nil {
		return err
	}
	return s.del.run()
}

// runInsert inserts a row with its stamps, unless a row has the key or, of tables that are not exact, something else that
// is unique.
func (s *statements) runInsert(vals []value) (done bool, err error) {
	s.sel.reset()
	s.layout.stamp(vals)
	insert, columns := s.insert, s.layout.columns
	if s.exact {
		columns = make([]int, 0, len(columns))
		for _, i := range s.layout.columns {
			if vals[i].kind != 0 && !vals[i].late {
				columns = append(columns, i)
			}
		}
		if insert, err = s.c.prepareOne(s.layout.insertSQL(columns, 1)); err != nil {
			return false, err
		}
	}
	if err := s.put(insert, columns, vals); err != nil {
		return false, err
	}
	if done = s.c.changes() > 0; !done {
		s.layout.unstamp(vals)
	}
	return done, nil
}

// insertOrFail inserts a row although another row has something of it that is unique, the rowid: SQLite says what.
func (s *statements) insertOrFail(vals []value) error {
	insert, err := s.c.prepareOne(s.layout.insertSQL(s.layout.columns, 1))
	if err != nil {
		return err
	}
	s.layout.stamp(vals)
	return s.put(insert, s.layout.columns, vals)
}

func (s *statements) put(insert *stmt, columns []int, vals []value) error {
	insert.clear()
	if err := s.layout.bindRow(insert, 0, columns, vals); err != nil {
		return err
	}
	return insert.run()
}

// runUpdate sets these columns of the row that was looked up. keeps says which of them have what they had.
func (s *statements) runUpdate(vals []value, columns []int, keeps func(column int) bool) (err error) {
	update := s.update
	if s.exact {
		update, err = s.c.prepareOne(s.layout.updateSQL(columns))
		if err != nil {
			return err
		}
	} else {
		columns = s.set
	}
	for n, i := range columns {
		if vals[i].kind == 0 || keeps(i) {
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

// insertMany inserts the rows of a buffer whose keys the table does not have, and returns how many these are. It is called
// for buffers of strategy.together rows only, for which its SQL is made.
func (s *statements) insertMany(rows *rowBuffer) (inserted int64, err error) {
	l := s.layout
	if s.many == "" {
		s.many = l.insertSQL(l.columns, len(rows.rows)) + " ON CONFLICT DO NOTHING"
	}
	insert, err := s.c.prepareOne(s.many)
	if err != nil {
		return 0, err
	}
	s.c.bound.release()
	insert.clear()
	for i := range rows.rows {
		vals := rows.of(i)
		l.stamp(vals)
		if err := l.bindRow(insert, i*len(l.columns), l.columns, vals); err != nil {
			return 0, err
		}
	}
	if err := insert.run(); err != nil {
		return 0, err
	}
	return int64(s.c.changes()), nil
}
