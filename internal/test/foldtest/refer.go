package foldtest

import (
	"errors"
	"fmt"

	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/mapping/cast"
)

// refer creates missing rows that a row and the elements of its sets refer to.
func (m *Model) refer(r modelRow) error {
	for _, e := range r.elements {
		if err := m.refer(e); err != nil {
			return err
		}
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
		if to := m.tables[s.References]; !to.Has(key.Text) {
			to.Stub(key)
		}
	}
	return nil
}

// ErrReferenced rejects a message that deletes a row that others refer to.
var ErrReferenced = errors.New("others name the row")

// violated returns an error if a row refers to a row that a message has deleted.
func (m *Model) violated() error {
	for i := range m.mapping.Tables {
		t := &m.mapping.Tables[i]
		for _, c := range t.Columns {
			to := m.tables[c.From[0].References]
			if to == nil {
				continue
			}
			for _, row := range m.rows(t) {
				if key, ok := row[c.Name]; ok && key.Kind != Null && !to.Has(key.Text) {
					return fmt.Errorf("%w: table %s names %s of %s", ErrReferenced, t.Name, key.Text, c.From[0].References)
				}
			}
		}
	}
	return nil
}

// keyType returns the type of a table's key, which has one column.
func (m *Model) keyType(table string) cast.Type {
	t := m.table(table)
	for i := range t.Columns {
		if t.Columns[i].Name == t.Key[0] {
			return m.typeOf(t, &t.Columns[i].From[0])
		}
	}
	return t.Type
}

// typeOf returns the type that a source's values are converted to.
func (m *Model) typeOf(t *mapping.Table, s *mapping.Source) cast.Type {
	if s.References != "" {
		return m.keyType(s.References)
	}
	as := s.As
	if as.Kind == cast.DefaultType {
		as = t.Type
	}
	return as
}
