package mapping

import (
	"fmt"
	"strings"

	"github.com/weirsync/weir/internal/cast"
	"github.com/weirsync/weir/internal/paths"
)

// ParseRow parses where a row is: PATH of an object, or PATH as json_text, a string with the object.
func ParseRow(text string) (p paths.Path, inText bool, err error) {
	path, typ, inText := cast.CutAs(strings.TrimSpace(text))
	if inText && typ != string(cast.JSONText) {
		return p, false, fmt.Errorf("%q: a row is an object, or %s", text, cast.JSONText)
	}
	p, err = paths.ParsePath(path)
	return p, inText, err
}

// RowText returns the setting that [ParseRow] reads; "" for none.
func (t *Table) RowText() string {
	switch {
	case t.Row.Base == paths.NoBase:
		return ""
	case t.RowInText:
		return t.Row.String() + " as " + string(cast.JSONText)
	}
	return t.Row.String()
}

// ParseSource parses a column's source: PATH, PATH as TYPE, as TYPE or nothing. The last two read the field with the
// column's name.
func ParseSource(text, column string) (s Source, err error) {
	path, typ, as := cast.CutAs(strings.TrimSpace(text))
	if s.From = paths.FieldPath(column); path != "" {
		if s.From, err = paths.ParsePath(path); err != nil {
			return Source{}, err
		}
	}
	if as {
		if s.As, err = cast.ParseType(typ); err != nil {
			return Source{}, err
		}
	}
	return s, nil
}
