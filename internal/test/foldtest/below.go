package foldtest

import (
	"slices"

	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/mapping/paths"
)

// This file is about child rows, which are deleted with their parents.

// versioned returns the table that has the version of a table's messages; nil for none.
func (m *Model) versioned(t *mapping.Table) *mapping.Table {
	for !m.isSet(t) {
		if t.Version.Base != paths.NoBase {
			return t
		}
		if t.Of == "" {
			break
		}
		t = m.table(t.Of)
	}
	return nil
}

// parentTomb returns the version of the newest delete of a row's parents.
func (m *Model) parentTomb(t *mapping.Table, named map[string]Value) (tomb string) {
	var key []string
	for _, k := range m.key(t) {
		key = append(key, named[k].Text)
	}
	for t.Of != "" {
		t = m.table(t.Of)
		key = key[:len(m.key(t))]
		if r := m.tables[t.Name].rows[Key(key...)]; r != nil && r.tomb != "" && (tomb == "" || Compare(tomb, r.tomb) < 0) {
			tomb = r.tomb
		}
	}
	return tomb
}

// deleteChildren applies the delete of a row, with a version, to its children.
func (m *Model) deleteChildren(of *mapping.Table, key []string, version raw) {
	for i := range m.mapping.Tables {
		t := &m.mapping.Tables[i]
		if t.Of != of.Name || m.isSet(t) {
			continue
		}
		for _, cells := range m.rows(t) {
			var own []string
			for _, k := range m.key(t) {
				own = append(own, cells[k].Text)
			}
			if slices.Equal(own[:len(key)], key) {
				if m.versioned(t) == nil {
					delete(m.tables[t.Name].rows, Key(own...))
				} else {
					m.tables[t.Name].applyDelete(Key(own...), version.value().Text)
				}
				m.deleteChildren(t, own, version)
			}
		}
	}
}
