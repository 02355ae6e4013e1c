package sqlite

import "slices"

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
	many   string // SQL that inserts several rows; "": not needed yet
}

func (c *conn) prepareStatements(l *layout, exact bool) (s statements, err error) {
	s = statements{c: c, layout: l, exact: exact}
	if !l.b.Table.Appends() {
		if s.sel, err = c.prepare(l.selectSQL()); err != nil {
			return s, err
		}
		if s.del, err = c.prepare(l.deleteSQL()); err != nil {
			return s, err
		}
	}
	if exact {
		return s, nil
	}
	if s.insert, err = c.prepare(l.insertSQL(l.columns, 1)); err != nil || l.b.Table.Appends() {
		return s, err
	}
	s.set = slices.DeleteFunc(slices.Clone(l.columns), func(i int) bool { return l.b.Table.Columns[i].Key })
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

// insertMany inserts n rows except those whose keys are in the table, and returns how many it inserted. n must not
// change.
func (s *statements) insertMany(rows *rowBuffer, n int) (inserted int64, err error) {
	l := s.layout
	if s.many == "" {
		if s.many = l.insertSQL(l.columns, n); s.sel != nil { // without a key no row is looked up
			s.many += " ON CONFLICT DO NOTHING"
		}
	}
	insert, err := s.c.prepareVariant(s.many)
	if err != nil {
		return 0, err
	}
	s.c.bound.release()
	insert.clear()
	for i := range n {
		row := rows.row(i)
		l.stamp(row)
		if err := l.bindRow(insert, i*len(l.columns), l.columns, row); err != nil {
			return 0, err
		}
	}
	if err := insert.run(); err != nil {
		return 0, err
	}
	return int64(s.c.changes()), nil
}
