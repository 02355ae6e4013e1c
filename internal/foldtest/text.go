package foldtest

import (
	"strings"

	"github.com/weirsync/weir/internal/mapping"
)

// This file is about the text that tests write mappings in. What cannot be read panics.

// Path is a path as a config file has it.
func Path(text string) mapping.Path {
	p, err := mapping.ParsePath(text)
	if err != nil {
		panic(err)
	}
	return p
}

// When is the condition that all of the tests FIELD=VALUE|VALUE, FIELD!=VALUE, FIELD or !FIELD
// hold.
func When(tests ...string) mapping.When {
	var all mapping.All
	for _, t := range tests {
		x := mapping.Test{}
		field, values, compares := strings.Cut(t, "=")
		if field, x.Not = strings.CutSuffix(field, "!"); compares {
			for v := range strings.SplitSeq(values, "|") {
				value := mapping.Value{Text: v}
				if v == "null" {
					value = mapping.Value{Null: true}
				}
				x.In = append(x.In, value)
			}
		} else if after, absent := strings.CutPrefix(field, "!"); absent {
			field, x.Present = after, mapping.MustBeAbsent
		} else {
			x.Present = mapping.MustBePresent
		}
		x.Path = Path(field)
		all = append(all, x)
	}
	return mapping.When{all}
}

// Columns are columns NAME: SOURCE; SOURCE …, separated by commas. A source is one that
// ParseSource reads, with " if CONDITION" behind it or not, or =JSON, or meta NAME.
func Columns(text string) []mapping.Column {
	out := []mapping.Column{}
	depth := 0
	parts := strings.FieldsFunc(text, func(r rune) bool {
		switch r {
		case '(', '{', '[':
			depth++
		case ')', '}', ']':
			depth--
		}
		return r == ',' && depth == 0 || r == '\n'
	})
	for _, part := range parts {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		name, sources, _ := strings.Cut(part, ":")
		c := mapping.Column{Name: name}
		for s := range strings.SplitSeq(sources, ";") {
			c.From = append(c.From, Source(strings.TrimSpace(s), name))
		}
		out = append(out, c)
	}
	return out
}

// Source is a source of a column of a name.
func Source(text, column string) (s mapping.Source) {
	text, condition, conditional := strings.Cut(text, " if ")
	var err error
	if value, constant := strings.CutPrefix(text, "="); constant {
		s.Value = []byte(value)
	} else if meta, is := strings.CutPrefix(text, "meta "); is {
		s.Meta = mapping.Meta(meta)
	} else if stamp, is := strings.CutPrefix(text, "stamp "); is {
		s.Stamp = mapping.Stamp(stamp)
	} else if s, err = mapping.ParseSource(text, column); err != nil {
		panic(err)
	}
	if conditional {
		s.When = When(strings.Fields(condition)...)
	}
	return s
}
