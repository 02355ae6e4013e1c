package sinktest

import (
	"strings"

	"github.com/weirsync/weir/internal/fold/merge"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/mapping/paths"
)

// The text format of the suite's mappings. Invalid text panics.

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// path parses a path as in a config file.
func path(text string) paths.Path { return must(paths.ParsePath(text)) }

// when parses a condition: FIELD=VALUE, or FIELD for a field that is present.
func when(text string) paths.When {
	field, value, compares := strings.Cut(text, "=")
	if !compares {
		return paths.When{{{Path: path(field), Present: paths.MustBePresent}}}
	}
	return paths.When{{{Path: path(field), In: []paths.Value{{Text: value}}}}}
}

// columns parses columns NAME or NAME: SOURCE, separated by a comma and a space; a source is as in a config file, or a
// stamp.
func columns(text string) (all []mapping.Column) {
	for part := range strings.SplitSeq(text, ", ") {
		name, from, _ := strings.Cut(part, ": ")
		var s mapping.Source
		if stamp, is := strings.CutPrefix(from, "stamp "); is {
			s.Stamp = schema.Stamp(stamp)
		} else {
			var path mapping.TypedPath
			if err := path.UnmarshalText([]byte(from)); err != nil {
				panic(err)
			}
			s = path.Source(name)
		}
		all = append(all, mapping.Column{Name: name, From: []mapping.Source{s}})
	}
	return all
}

// functions parses merge functions as in --merge: COLUMN=FUNCTION, separated by commas.
func functions(text string) map[string]merge.Function {
	all := map[string]merge.Function{}
	for part := range strings.SplitSeq(text, ",") {
		column, function, _ := strings.Cut(part, "=")
		all[column] = must(merge.Parse(function))
	}
	return all
}
