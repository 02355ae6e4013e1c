package settings

import "github.com/weirsync/weir/internal/mapping"

// A family is tables by name.
type family map[string]*mapping.Table

// identity returns the columns by which children refer to a row: the surrogate, or the key. There must be no cycle.
func (f family) identity(t *mapping.Table) []string {
	if t.ID != "" {
		return []string{t.ID}
	}
	return f.key(t)
}

// key returns the whole key of a table.
func (f family) key(t *mapping.Table) []string { return append(f.inherited(t), t.Key...) }

// inherited returns the columns that a table has from its parent.
func (f family) inherited(t *mapping.Table) (names []string) {
	parent := f[t.Of]
	if parent == nil {
		return nil
	}
	for _, name := range f.identity(parent) {
		if as, ok := t.Parent[name]; ok {
			name = as
		}
		names = append(names, name)
	}
	return names
}
