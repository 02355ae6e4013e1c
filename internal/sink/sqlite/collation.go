package sqlite

import (
	"bytes"
	"strings"

	"github.com/weirsync/weir/internal/fold/schema"
)

// A collation is a collation of SQLite's.
type collation string

// Form implements [schema.Collation].
func (c collation) Form(text []byte) []byte {
	switch strings.ToUpper(string(c)) {
	case "NOCASE":
		ended := false // SQLite compares up to a NUL, and then the lengths
		for i, b := range text {
			switch ended = ended || b == 0; {
			case ended:
				text[i] = 0
			case 'A' <= b && b <= 'Z':
				text[i] = b + 'a' - 'A'
			}
		}
	case "RTRIM":
		text = bytes.TrimRight(text, " ")
	}
	return text
}

func (c collation) String() string { return string(c) }

// collationOf returns the name of a column's explicit collation, or "".
func collationOf(c *schema.Column) string {
	if c.Collation == nil {
		return ""
	}
	return c.Collation.String()
}
