package envelope

import (
	"encoding/json"
	"strconv"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/mapping/cast"
	"github.com/weirsync/weir/internal/mapping/paths"
)

// This file is about the schemas of a stream, which declare the types of the row's fields: those that Kafka Connect's
// JSON converter adds to each message, and Singer's, which come before the rows.

// A RowSchema is the schema of a message's row.
type RowSchema struct {
	Fields   []FieldSchema
	isStruct bool // it is a schema of objects, as required for messages
}

// A FieldSchema is the schema of one field, or of a message.
type FieldSchema struct {
	Field      string        `json:"field"`
	Type       string        `json:"type"`
	Name       string        `json:"name"` // the logical type
	Parameters connectDigits `json:"parameters"`
	Fields     []FieldSchema `json:"fields"`
	Items      *FieldSchema  `json:"items"` // of an array
	Kind       cast.TypeKind `json:"-"`     // of a JSON Schema, which has only this and Field
}

type connectDigits struct {
	Scale string `json:"scale"` // of a decimal
}

// logical has the types for Kafka Connect's and Debezium's logical types.
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
	"io.debezium.data.Bits":                 cast.Bits,
	"io.debezium.data.Json":                 cast.JSONText,
	"io.debezium.data.Uuid":                 cast.UUID,
}

// plainTypes are the types of columns for values without conversion. weir widens such a column if the source's column
// changes.
var plainTypes = map[string]schema.Type{
	"boolean": schema.Bool, "string": schema.Text, "array": schema.JSON, "map": schema.JSON, "struct": schema.JSON,
	"int8": schema.Int, "int16": schema.Int, "int32": schema.Int, "int64": schema.Int, "float": schema.Real, "double": schema.Real,
}

// Cast returns the conversion for the field's values; nil if they need none.
func (f *FieldSchema) Cast(textTypes bool) *cast.Cast {
	kind := logical[f.Name]
	var c cast.Cast
	switch {
	case f.Kind == cast.Auto || f.Kind == cast.DefaultType && f.Type == "":
		return nil
	case f.Kind != cast.DefaultType:
		c = cast.New(cast.Type{Kind: f.Kind}, textTypes)
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

// Column returns the column that weir makes for the field's values, which as converts. Its type is open if the values
// decide it.
func (f *FieldSchema) Column(name string, key bool, as *cast.Cast, textTypes bool) schema.Column {
	plain := plainTypes[f.Type]
	if as != nil {
		plain = as.Column(false)
	}
	if as != nil && (f.Kind != cast.DefaultType || plain != schema.Text && plain != schema.Number && plain != schema.Real) {
		return as.Make(name, key, textTypes)
	}
	return schema.NewOf(name, key, plain)
}

// connectSchemas caches parsed schemas by their text.
type connectSchemas struct {
	cache map[string]*RowSchema
	bytes int // total size of the texts
}

// maxSchemas is the maximum total size of the texts of cached schemas.
const maxSchemas = 8 << 20

// rowSchema returns the schema in the current line; nil if there is none.
func (d *Decoder) rowSchema() *RowSchema {
	v := d.read.Value(&d.spec.ConnectSchema)
	if v == nil || v.Kind != feed.JSON {
		return nil
	}
	s := &d.schemas
	if r, known := s.cache[string(v.Value)]; known {
		return r
	}
	var top FieldSchema
	if json.Unmarshal(v.Value, &top) != nil { // not such a schema
		top = FieldSchema{}
	}
	r := &RowSchema{Fields: rowFields(top, d.spec.Row), isStruct: top.Type == "struct"}
	if s.bytes += len(v.Value); s.cache == nil || s.bytes > maxSchemas {
		s.cache, s.bytes = map[string]*RowSchema{}, len(v.Value)
	}
	s.cache[string(v.Value)] = r
	return r
}

// hasSchema reports whether the line has the schema of a message. If so, it is not one of the message's fields.
func (d *Decoder) hasSchema() bool {
	r := d.rowSchema()
	return r != nil && r.isStruct
}

// rowFields returns the fields of the first struct that one of the paths leads to.
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
