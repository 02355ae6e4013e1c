package foldtest

import (
	"fmt"

	"github.com/weirsync/weir/internal/mapping"
)

// refer looks for the rows that a row names.
func (m *Model) refer(r modelRow) error {
	var own []string
	for _, k := range m.key(r.table) {
		own = append(own, r.fields[k].value().Text)
	}
	for column, s := range r.refers {
		x, ok := r.fields[column]
		if !ok || x.isNull() {
			continue
		}
		key := x.value()
		if key.Kind == Null || key.Kind == JSON || key.Text == "" {
			return fmt.Errorf("%s is no key", column)
		}
		switch to := m.tables[s.References]; {
		case to.Has(key.Text):
		case s.Missing == mapping.NullMissing:
			r.fields[column] = "null"
		case s.Missing == mapping.RejectMissing:
			if v := r.fields[versionField]; v == "" || !m.tables[r.table.Name].outdated(Key(own...), column, v.value().Text) {
				return fmt.Errorf("%s names a row that is missing", column)
			}
		default:
			to.Stub(key)
		}
	}
	return nil
}

// keyType is what the key of a table is read as, which is one column.
func (m *Model) keyType(table string) mapping.Type {
	t := m.table(table)
	for i := range t.Columns {
		if t.Columns[i].Name == t.Key[0] {
			return m.typeOf(t, &t.Columns[i].From[0])
		}
	}
	return t.Type
}

// typeOf is what the values of a source are read as.
func (m *Model) typeOf(t *mapping.Table, s *mapping.Source) mapping.Type {
	if s.References != "" {
		return m.keyType(s.References)
	}
	as := s.As
	if as.Kind == mapping.DefaultType {
		as = t.Type
	}
	return as
}
