package mapping

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/weirsync/weir/internal/feed"
)

// maxNested is how deep schemas of one value may stand in each other.
const maxNested = 10

// schemaColumns are the columns of rows that a JSON Schema describes, in its order.
func schemaColumns(raw []byte) (columns []Column, err error) {
	w := feed.Walk(raw)
	if w.Next(); len(raw) == 0 || raw[0] != '{' {
		return nil, fmt.Errorf("the schema is no object but %s", clip(raw))
	}
	for w.Next() {
		if name, value := string(w.Name), w.Raw(); name == "properties" && value[0] == '{' {
			properties := feed.Walk(value)
			for properties.Next(); properties.Next(); {
				name := string(feed.AppendUnquoted(nil, properties.Name))
				as := schemaType(properties.Raw(), 0)
				columns = append(columns, Column{Name: name, From: []Source{{From: FieldPath(name), As: Type{Kind: as}}}})
			}
		}
	}
	return columns, nil
}

// schemaType is the type of the values that a JSON Schema describes: Auto where they have none in
// common, and that of the table where there are none but null.
func schemaType(raw []byte, depth int) TypeKind {
	var s struct {
		Type         any
		Format       string
		AnyOf, OneOf []json.RawMessage
		// Within these are whole numbers; without them they have 64 bits.
		Minimum, Maximum float64
	}
	if json.Unmarshal(raw, &s) != nil || depth > maxNested {
		return Auto
	}
	var all []TypeKind
	add := func(k TypeKind) {
		if k != DefaultType && !slices.Contains(all, k) {
			all = append(all, k)
		}
	}
	for _, of := range slices.Concat(s.AnyOf, s.OneOf) {
		add(schemaType(of, depth+1))
	}
	types, several := s.Type.([]any)
	if !several {
		types = []any{s.Type}
	}
	for _, t := range types {
		switch t {
		case "integer":
			if s.Minimum < math.MinInt64 || s.Maximum > math.MaxInt64 {
				add(Numeric)
			} else {
				add(Integer)
			}
		case "number":
			add(Numeric)
		case "boolean":
			add(Boolean)
		case "object", "array":
			add(JSON)
		case "string":
			add(formatType(s.Format))
		case "null":
		default:
			if t != nil || len(all) == 0 {
				add(Auto)
			}
		}
	}
	return unionOf(all)
}

// formatType is the type of texts of a format.
func formatType(format string) TypeKind {
	switch format {
	case "date-time":
		return TimestampUTC
	case "date":
		return Date
	case "uuid":
		return UUID
	}
	return Text
}

// unionOf is the type that has the values of several; Auto where it is not known, and DefaultType of none.
func unionOf(all []TypeKind) TypeKind {
	switch {
	case len(all) == 1:
		return all[0]
	case len(all) == 0:
		return DefaultType
	case slices.Contains(all, JSON):
		return JSON
	case len(all) == 2 && slices.Contains(all, Integer) && slices.Contains(all, Numeric):
		return Numeric
	}
	for _, k := range all {
		if !slices.Contains([]TypeKind{Text, TimestampUTC, Date, UUID}, k) {
			return Auto
		}
	}
	return Text
}
