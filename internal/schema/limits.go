package schema

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/feed"
)

// Limits are what a database takes, whatever the table. The zero value has no limits.
type Limits struct {
	// Untyped tells that the database has columns without a type: a field of nulls alone
	// becomes one.
	Untyped bool
	// TextTypes tells that the database has no types of its own for times, dates, UUIDs and JSON:
	// they are texts. Times are as its functions write them, in UTC: 2020-05-15 13:30:00.
	TextTypes bool
	// NoSchemas tells that the database has no schemas: SCHEMA.TABLE is SCHEMA_TABLE.
	NoSchemas bool
	// FoldCase tells that the database takes names that differ only in the case of ASCII
	// letters for one name.
	FoldCase bool
	// NoNUL tells that the database's text cannot hold the character NUL.
	NoNUL bool
	// MaxName and MaxKey are how many bytes the database takes for a column's name and for a
	// key; 0 is no limit.
	MaxName, MaxKey int
	// SafeColumns is with how many columns a table takes any row: of one with more, a row may be too big; 0 is any number.
	SafeColumns int
	// Reserved are names that the database gives no column.
	Reserved []string
}

// MayOverflow reports whether a row of a table may be too big for the database.
func (l *Limits) MayOverflow(t *Table) bool {
	return l.SafeColumns > 0 && len(t.Columns) > l.SafeColumns
}

// FoldName returns the form in which two names are the same name.
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

// Find returns the index of the table's column of that name, or -1. hint is where it is
// likely to be.
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

// FindKey returns the columns of the key's fields. primary are those of the primary key, if the
// table has one.
func (l *Limits) FindKey(t *Table, fields, primary []string) ([]int, error) {
	found := make([]int, len(fields))
	for i, k := range fields {
		if found[i] = l.Find(t, k, i); found[i] < 0 {
			if primary != nil {
				return nil, fmt.Errorf("table %q has no column %q for the key: --key %s is its primary key", t.Name, k, strings.Join(primary, ","))
			}
			return nil, fmt.Errorf("table %q has no column %q for the key: name its key with --key", t.Name, k)
		}
	}
	return found, nil
}

// CheckName reports what keeps a new column from having a name.
func (l *Limits) CheckName(name string) error {
	switch {
	case l.MaxName > 0 && len(name) > l.MaxName:
		return feed.Errorf(feed.BadName, "the field name %q has %d bytes: the database takes %d", name[:min(len(name), 100)], len(name), l.MaxName)
	case slices.Contains(l.Reserved, name):
		return feed.Errorf(feed.BadName, "the field name %q is one that the database keeps for itself (rename it in the feed)", name)
	}
	return nil
}
