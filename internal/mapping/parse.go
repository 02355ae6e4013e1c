package mapping

import (
	"fmt"
	"strings"

	"github.com/weirsync/weir/internal/mapping/cast"
	"github.com/weirsync/weir/internal/mapping/paths"
)

// A RowPath is the path of the object that is the row. InText: it leads to a string that contains the object.
type RowPath struct {
	paths.Path
	InText bool
}

// UnmarshalText parses PATH, or PATH as json_text.
func (r *RowPath) UnmarshalText(text []byte) (err error) {
	path, typ, inText := cast.CutAs(strings.TrimSpace(string(text)))
	if r.InText = inText; inText && typ != string(cast.JSONText) {
		return fmt.Errorf("%q: a row is an object, or %s", text, cast.JSONText)
	}
	r.Path, err = paths.ParsePath(path)
	return err
}

// String returns the text that UnmarshalText parses; "" for the zero row.
func (r RowPath) String() string {
	if r.InText {
		return r.Path.String() + " as " + string(cast.JSONText)
	}
	return r.Path.String()
}

// MarshalText implements [encoding.TextMarshaler].
func (r RowPath) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// A TypedPath is the path of a value, and the type that it is read as. Without a path, it is the field with the column's
// name.
type TypedPath struct {
	paths.Path
	As cast.Type
}

// UnmarshalText parses PATH, PATH as TYPE, as TYPE or nothing.
func (t *TypedPath) UnmarshalText(text []byte) error {
	path, as, typed := cast.CutAs(strings.TrimSpace(string(text)))
	if path != "" {
		if err := t.Path.UnmarshalText([]byte(path)); err != nil {
			return err
		}
	}
	if typed {
		return t.As.UnmarshalText([]byte(as))
	}
	return nil
}

// Source returns the source of a column.
func (t TypedPath) Source(column string) Source {
	if t.Base == paths.NoBase {
		t.Path = paths.FieldPath(column)
	}
	return Source{From: t.Path, As: t.As}
}
