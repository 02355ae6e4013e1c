package mapping

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/mapping/cast"
	"github.com/weirsync/weir/internal/mapping/paths"
)

// WithSources returns the mapping with a further column for each source of a column that has several, and for any number
// of columns. A row sets such a column if that source has a value: see [Table.SourceOf].
func (m *Mapping) WithSources() *Mapping {
	out := *m
	out.Tables = slices.Clone(m.Tables)
	for i := range out.Tables {
		t := &out.Tables[i]
		if t.MaxColumns = math.MaxInt32; t.Of != "" { // its rows are a value of the parent row
			continue
		}
		columns := slices.Clone(t.Columns)
		for _, c := range t.Columns {
			for n, s := range c.From {
				if len(c.From) > 1 {
					s.As, s.References = cast.Type{Kind: cast.Auto}, ""
					columns = append(columns, Column{Pos: c.Pos, Name: sourceColumn(c.Name, n), From: []Source{s}})
				}
			}
		}
		t.Columns = columns
	}
	return &out
}

// sourcePrefix is not UTF-8, so no name in a feed has it.
const sourcePrefix = "\xfesource "

func sourceColumn(column string, n int) string {
	return fmt.Sprintf(sourcePrefix+"%d of %s", n, column)
}

// IsSourceColumn reports whether [Mapping.WithSources] has added a column.
func IsSourceColumn(name string) bool { return strings.HasPrefix(name, sourcePrefix) }

// SourceOf returns the source of a column that a message sets; "" if the column holds child rows. sets reports whether
// the message sets a column of [Mapping.WithSources].
func (t *Table) SourceOf(column string, sets func(column string) bool) string {
	if schema.IsHiddenName(column) {
		return ""
	}
	from := t.sourcesOf(column)
	for n := range from {
		if len(from) == 1 || sets(sourceColumn(column, n)) {
			return from[n].String()
		}
	}
	return paths.FieldPath(column).String()
}

// sourcesOf returns the sources of a column; nil if it is a field of its own name.
func (t *Table) sourcesOf(column string) []Source {
	for i := range t.Columns {
		if t.Columns[i].Name == column {
			return t.Columns[i].From
		}
	}
	return nil
}

// ReadText returns a text as a value of a column, as raw JSON. A text that is not of the column's type is unchanged.
func (t *Table) ReadText(column, text string) []byte {
	v := feed.Field{Value: feed.AppendString(nil, text), Kind: feed.String}
	if from := t.sourcesOf(column); from != nil {
		as := cast.New(t.TypeOf(&from[0]), true)
		if read, why := new(cast.Reader).Read(&v, &as); why == "" {
			v = read
		}
	}
	return v.Value
}

// String describes the source with its condition: clock (type=offblock).
func (s *Source) String() string {
	text := s.From.String()
	switch {
	case s.Value != nil:
		text = "value " + string(s.Value)
	case s.Meta != NoMeta:
		text = "meta " + string(s.Meta)
	}
	if s.When == nil {
		return text
	}
	return fmt.Sprintf("%s (%s)", text, s.When)
}
