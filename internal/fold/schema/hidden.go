package schema

import "strings"

// hiddenPrefix is not UTF-8, so no name in a feed or database has it.
const hiddenPrefix = "\xff"

// HiddenName returns the name of a column that batches have and the database does not. The title is shown to users.
func HiddenName(title string) string { return hiddenPrefix + title }

// IsHiddenName reports whether a name was made by HiddenName.
func IsHiddenName(name string) bool { return strings.HasPrefix(name, hiddenPrefix) }

// HiddenTitle returns the title of a hidden column, or the name of any other.
func HiddenTitle(name string) string { return strings.TrimPrefix(name, hiddenPrefix) }
