package mapping

import (
	"strings"

	"github.com/weirsync/weir/internal/cast"
	"github.com/weirsync/weir/internal/paths"
)

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
