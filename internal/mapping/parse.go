package mapping

import (
	"strings"

	"github.com/weirsync/weir/internal/cast"
)

// ParseSource reads a column's source: PATH, PATH as TYPE, as TYPE or nothing; the last two
// read the field that has the column's name.
func ParseSource(text, column string) (s Source, err error) {
	path, typ, as := cast.CutAs(strings.TrimSpace(text))
	if s.From = FieldPath(column); path != "" {
		if s.From, err = ParsePath(path); err != nil {
			return Source{}, err
		}
	}
	if as {
		if s.As, err = ParseType(typ); err != nil {
			return Source{}, err
		}
	}
	return s, nil
}
