package schema

import "strings"

// Columns that no database has begin with hiddenPrefix, which is not UTF-8, so that no feed and no database has the name.
const hiddenPrefix = "\xff"

// HiddenName is the name of a column that batches have and no database: its title is for people.
func HiddenName(title string) string { return hiddenPrefix + title }

// IsHiddenName reports whether a column has such a name.
func IsHiddenName(name string) bool { return strings.HasPrefix(name, hiddenPrefix) }

// HiddenTitle is the title of a column with such a name, and the name of any other one.
func HiddenTitle(name string) string { return strings.TrimPrefix(name, hiddenPrefix) }
