package schema

import "strings"

// hiddenPrefix is not UTF-8, so no feed and no database has a name with it.
const hiddenPrefix = "\xff"

// HiddenName is the name of a column that batches have and no database: its title is for people.
func HiddenName(title string) string { return hiddenPrefix + title }

// IsHiddenName reports whether a column has such a name.
func IsHiddenName(name string) bool { return strings.HasPrefix(name, hiddenPrefix) }

// HiddenTitle is the title of a column with such a name, and the name of any other one.
func HiddenTitle(name string) string { return strings.TrimPrefix(name, hiddenPrefix) }
