package envelope

import (
	"encoding/json"
	"strconv"

	"github.com/weirsync/weir/internal/cast"
	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/paths"
	"github.com/weirsync/weir/internal/schema"
)

// This file is about the schemas that Kafka Connect's JSON converter puts into each message: they say
// which types the fields of its row have.

// A RowSchema is what a schema says of the row of a message.
type RowSchema struct {
	Fields   []FieldSchema
	isStruct bool // it is the schema of objects, as a message's is
}

// A FieldSchema is the schema of one field, or of a message.
type FieldSchema struct {
	Field      string        `json:"field"`
	Type       string        `json:"type"`
	Name       string        `json:"name"` // of what the type stands for
	Parameters connectDigits `json:"parameters"`
	Fields     []FieldSchema `json:"fields"`
	Items      *FieldSchema  `json:"items"` // of an array
}

type connectDigits struct {
	Scale string `json:"scale"` // of a decimal
}

// logical are the types of values by the names that Kafka Connect and Debezium have for them.
var logical = map[string]cast.TypeKind{
	"org.apache.kafka.connect.data.Date":      cast.DateDays,
	"org.apache.kafka.connect.data.Time":      cast.TimeMs,
	"org.apache.kafka.connect.data.Timestamp": cast.TimestampMs,
	"org.apache.kafka.connect.data.Decimal":   cast.Base64Number,

	"io.debezium.time.Date":                 cast.DateDays,
	"io.debezium.time.Time":                 cast.TimeMs,
	"io.debezium.time.MicroTime":            cast.TimeUs,
	"io.debezium.time.NanoTime":             cast.TimeNs,
	"io.debezium.time.Timestamp":            cast.TimestampMs,
	"io.debezium.time.MicroTimestamp":       cast.TimestampUs,
	"io.debezium.time.NanoTimestamp":        cast.TimestampNs,
	"io.debezium.time.ZonedTimestamp":       cast.Timestamp,
	"io.debezium.time.IsoTimestamp":         cast.Timestamp,
	"io.debezium.data.VariableScaleDecimal": cast.Base64Number,
	"io.debezium.data.Json":                 cast.JSONText,
	"io.debezium.data.Uuid":                 cast.UUID,
}

// plainTypes are the types of columns for values that are as they come. weir widens such a column where
// the source's column becomes another one.
var plainTypes = map[string]schema.Type{
	"boolean": schema.Bool, "string": schema.Text, "array": schema.JSON, "map": schema.JSON, "struct": schema.JSON,
	"int8": schema.Int, "int16": schema.Int, "int32": schema.Int, "int64": schema.Int, "float": schema.Real, "double": schema.Real,
}

// Cast is how the values of the field are read; nil: as they come.
func (f *FieldSchema) Cast(textTypes bool) *cast.Cast {
	kind := logical[f.Name]
	var c cast.Cast
	switch {
	case kind == cast.Base64Number && f.Type == "bytes":
		n, err := strconv.Atoi(f.Parameters.Scale)
		if err != nil || n < -schema.MaxWhole || n > schema.MaxFraction {
			return nil
		}
		c = cast.Decimal(n, textTypes)
	case kind != "":
		c = cast.New(cast.Type{Kind: kind}, textTypes)
		c.SureUnit = true
	case f.Type == "bytes":
		c = cast.New(cast.Type{Kind: cast.Bytes}, textTypes)
	case f.Type == "array" && f.Items != nil:
		element := f.Items.Cast(textTypes)
		if element == nil {
			return nil
		}
		c = cast.ArrayOf(element, textTypes)
	case f.Type == "double":
		c = cast.Double()
	default:
		return nil
	}
	return &c
}

// Column returns the column that weir makes for values of the field, which as reads; ok is false where the values that
// come decide.
func (f *FieldSchema) Column(name string, key bool, as *cast.Cast, textTypes bool) (c schema.Column, ok bool) {
	plain := plainTypes[f.Type]
	if as != nil {
		plain = as.Column(false)
	}
	switch {
	case plain == schema.Any:
		return c, false
	case plain == schema.Text || plain == schema.Number || plain == schema.Real || as == nil:
		return schema.NewOf(name, key, plain), true
	}
	return as.Make(name, key, textTypes), true
}

// connectSchemas are what schemas say, by their text.
type connectSchemas struct {
	cache map[string]*RowSchema
	bytes int // of these texts
}

// maxSchemas is how many bytes of texts of schemas are kept, with what they say.
const maxSchemas = 8 << 20

// rowSchema returns what the schema of the line at hand says; nil: there is none.
func (d *Decoder) rowSchema() *RowSchema {
	v := d.read.Get(d.connect)
	if v == nil || v.Kind != feed.JSON {
		return nil
	}
	s := &d.schemas
	if r, known := s.cache[string(v.Value)]; known {
		return r
	}
	var top FieldSchema
	if json.Unmarshal(v.Value, &top) != nil { // it is no such schema
		top = FieldSchema{}
	}
	r := &RowSchema{Fields: rowFields(top, d.spec.Row), isStruct: top.Type == "struct"}
	if s.bytes += len(v.Value); s.cache == nil || s.bytes > maxSchemas {
		s.cache, s.bytes = map[string]*RowSchema{}, len(v.Value)
	}
	s.cache[string(v.Value)] = r
	return r
}

// hasSchema reports whether a line has the schema of a message. It is not one of the message's fields then.
func (d *Decoder) hasSchema() bool {
	r := d.rowSchema()
	return r != nil && r.isStruct
}

// rowFields are the fields of the first struct that a path leads to.
func rowFields(top FieldSchema, row []paths.Path) []FieldSchema {
	for _, path := range row {
		of, found := top, true
		for _, step := range path.Steps {
			at := of
			found = false
			for _, f := range at.Fields {
				if f.Field == step.Name && step.Index < 0 {
					of, found = f, true
				}
			}
		}
		if found && len(of.Fields) > 0 {
			return of.Fields
		}
	}
	return nil
}
