package envelope

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/mapping/cast"
)

// maxNested is how deep schemas of one value may be nested.
const maxNested = 10

// JSONSchema returns the schema of rows that a JSON Schema describes, with the fields in its order.
func JSONSchema(raw []byte) (*RowSchema, error) {
	if len(raw) == 0 || raw[0] != '{' {
		return nil, fmt.Errorf("the schema is not an object but %s", feed.Clip(raw))
	}
	r := &RowSchema{}
	properties := feed.Walk(feed.Member(raw, "properties").Value)
	for properties.Next(); properties.Next(); {
		name := string(feed.AppendUnquoted(nil, properties.Name))
		r.Fields = append(r.Fields, FieldSchema{Field: name, Kind: schemaType(properties.Raw(), 0)})
	}
	return r, nil
}

// schemaType returns the type of the values that a JSON Schema describes: cast.Auto if they have no common type, and
// cast.DefaultType if only null is allowed.
func schemaType(raw []byte, depth int) cast.TypeKind {
	var s struct {
		Type         any
		Format       string
		AnyOf, OneOf []json.RawMessage
		// An integer is between these; if they are absent, it has 64 bits.
		Minimum, Maximum float64
	}
	if json.Unmarshal(raw, &s) != nil || depth > maxNested {
		return cast.Auto
	}
	var all []cast.TypeKind
	add := func(k cast.TypeKind) {
		if k != cast.DefaultType && !slices.Contains(all, k) {
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
				add(cast.Numeric)
			} else {
				add(cast.Integer)
			}
		case "number":
			add(cast.Numeric)
		case "boolean":
			add(cast.Boolean)
		case "object", "array":
			add(cast.JSON)
		case "string":
			add(formatType(s.Format))
		case "null":
		default:
			if t != nil || len(all) == 0 {
				add(cast.Auto)
			}
		}
	}
	return unionOf(all)
}

// formatType returns the type of strings with a format.
func formatType(format string) cast.TypeKind {
	switch format {
	case "date-time":
		return cast.TimestampUTC
	case "date":
		return cast.Date
	case "uuid":
		return cast.UUID
	}
	return cast.Text
}

// unionOf returns a type for the values of several types: cast.Auto if there is none, cast.DefaultType for no types.
func unionOf(all []cast.TypeKind) cast.TypeKind {
	switch {
	case len(all) == 1:
		return all[0]
	case len(all) == 0:
		return cast.DefaultType
	case slices.Contains(all, cast.JSON):
		return cast.JSON
	case len(all) == 2 && slices.Contains(all, cast.Integer) && slices.Contains(all, cast.Numeric):
		return cast.Numeric
	}
	for _, k := range all {
		if !slices.Contains([]cast.TypeKind{cast.Text, cast.TimestampUTC, cast.Date, cast.UUID}, k) {
			return cast.Auto
		}
	}
	return cast.Text
}
