package schema

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/feed"
)

// Limits describe what a database accepts, for all tables. The zero value has no limits.
type Limits struct {
	// Untyped: a column may have no type. A field that has only been null becomes such a column.
	Untyped bool
	// TextTypes: times, dates, UUIDs and JSON are stored as text. Times have the format of the database's functions,
	// in UTC: 2020-05-15 13:30:00.
	TextTypes bool
	// NoSchemas: the database has no schemas, and SCHEMA.TABLE is stored as SCHEMA_TABLE.
	NoSchemas bool
	// FoldCase: names that differ only in the case of ASCII letters are the same name.
	FoldCase bool
	// NoNUL: text cannot hold the character NUL.
	NoNUL bool
	// MaxName and MaxKey are the maximum bytes of a column's name and of a key; 0 means no limit.
	MaxName, MaxKey int
	// SafeColumns is the number of columns up to which any row fits into a table; 0 means any number. With more, a
	// row may be too big.
	SafeColumns int
	// Reserved are names that no column can have.
	Reserved []string
}

// MayOverflow reports whether a row of a table may be too big for the database.
func (l *Limits) MayOverflow(t *Table) bool {
	return l.SafeColumns > 0 && len(t.Columns) > l.SafeColumns
}

// TableName returns the name in the database of the table that a setting or a stream calls name.
func (l *Limits) TableName(name string) string {
	if l.NoSchemas {
		return strings.ReplaceAll(name, ".", "_")
	}
	return name
}

// FoldName returns the canonical form of a name: two names are the same if their forms are equal.
func (l *Limits) FoldName(name string) string {
	if !l.FoldCase {
		return name
	}
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, name)
}

// Find returns the index of the table's column with a name, or -1. hint is its probable index.
func (l *Limits) Find(t *Table, name string, hint int) int {
	if hint < len(t.Columns) && t.Columns[hint].Name == name {
		return hint
	}
	for i := range t.Columns {
		if l.FoldName(t.Columns[i].Name) == l.FoldName(name) {
			return i
		}
	}
	return -1
}

// FindKey returns the indexes of the columns of the key's fields. primary are the names of the primary key's columns,
// nil if the table has no primary key.
func (l *Limits) FindKey(t *Table, fields, primary []string) ([]int, error) {
	found := make([]int, len(fields))
	for i, k := range fields {
		if found[i] = l.Find(t, k, i); found[i] < 0 {
			if primary != nil {
				return nil, fmt.Errorf("table %q has no column %q for the key: its primary key is %s, which you name with --key or in a config file", t.Name, k, strings.Join(primary, ","))
			}
			return nil, fmt.Errorf("table %q has no column %q for the key: name its key with --key or in a config file", t.Name, k)
		}
	}
	return found, nil
}

// CheckName returns an error if a new column cannot have the name.
func (l *Limits) CheckName(name string) error {
	switch {
	case l.MaxName > 0 && len(name) > l.MaxName:
		return feed.Errorf(feed.BadName, "the field name %q has %d bytes: the database takes %d", name[:min(len(name), 100)], len(name), l.MaxName)
	case slices.Contains(l.Reserved, name):
		return feed.Errorf(feed.BadName, "the field name %q is reserved by the database: rename it in the feed", name)
	}
	return nil
}
