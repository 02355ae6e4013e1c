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

// deleteChildren deletes the children of a deleted row. They have no versions.
func (m *Model) deleteChildren(of *mapping.Table, key []string) {
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
				delete(m.tables[t.Name].rows, Key(own...))
				m.deleteChildren(t, own)
			}
		}
	}
}
