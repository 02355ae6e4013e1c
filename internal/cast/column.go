package cast

import (
	"fmt"
	"slices"

	"github.com/weirsync/weir/internal/schema"
)

// columnTypes are the types of the columns that weir makes for values of a type, in a database
// that has such types and in one where they are texts. Those that are missing are as the values
// are.
var columnTypes = map[TypeKind][2]schema.Type{
	Text:         {schema.Text, schema.Text},
	Integer:      {schema.Int, schema.Int},
	Real:         {schema.Real, schema.Real},
	Numeric:      {schema.Number, schema.Any},
	Base64Number: {schema.Number, schema.Any},
	Boolean:      {schema.Bool, schema.Bool},
	JSON:         {schema.JSON, schema.Text},
	JSONText:     {schema.JSON, schema.Text},
	Timestamp:    {schema.Instant, schema.Text},
	TimestampUTC: {schema.Instant, schema.Text},
	TimestampMs:  {schema.Instant, schema.Text},
	TimestampUs:  {schema.Instant, schema.Text},
	TimestampNs:  {schema.Instant, schema.Text},
	Date:         {schema.Day, schema.Text},
	DateDays:     {schema.Day, schema.Text},
	TimeMs:       {schema.Text, schema.Text},
	TimeUs:       {schema.Text, schema.Text},
	TimeNs:       {schema.Text, schema.Text},
	UUID:         {schema.UUID, schema.Text},
	Bytes:        {schema.Bytes, schema.Bytes},
}

// Column is the type of a column that weir makes for values of the type; Any where it is that of
// the values that come.
func (t Type) Column(textTypes bool) schema.Type {
	if textTypes {
		return columnTypes[t.Kind][1]
	}
	return columnTypes[t.Kind][0]
}

// takers are the types of columns of a table that exists that take values of a type, beside those
// that take a text of any kind. Those of types that are missing are of all types.
var takers = map[TypeKind][]schema.Type{
	Integer:      {schema.Int, schema.Real, schema.Number, schema.JSON},
	Real:         {schema.Real, schema.Number, schema.JSON},
	Numeric:      {schema.Real, schema.Number, schema.JSON},
	Base64Number: {schema.Real, schema.Number, schema.JSON},
	Boolean:      {schema.Bool, schema.JSON},
	JSON:         {schema.JSON},
	JSONText:     {schema.JSON},
	Timestamp:    {schema.Instant},
	TimestampUTC: {schema.Instant},
	TimestampMs:  {schema.Instant},
	TimestampUs:  {schema.Instant},
	TimestampNs:  {schema.Instant},
	Date:         {schema.Day, schema.Instant},
	DateDays:     {schema.Day, schema.Instant},
	TimeMs:       {},
	TimeUs:       {},
	TimeNs:       {},
	UUID:         {schema.UUID},
	Bytes:        {schema.Bytes},
}

// Takes reports whether a column takes values of a type.
func (t Type) Takes(c *schema.Column) bool {
	special, known := takers[t.Kind]
	if !known || c.Own || c.Type == schema.Any || c.Type == schema.External || slices.Contains(special, c.Type) {
		return true
	}
	return t.Kind != Bytes && (c.Type == schema.Text || c.Type == schema.Affine)
}

// Fits tells that a column is as weir makes it for values of the type, so that the database refuses
// none of them.
func (c *Cast) Fits(x *schema.Column) bool {
	switch c.Column(false) {
	case schema.Instant:
		return x.Decl == "timestamp with time zone"
	case schema.Day:
		return x.Decl == "date"
	case schema.Bytes:
		return x.Binary
	case schema.Number:
		return c.Precision > 0 && x.Decl == fmt.Sprintf("numeric(%d,%d)", c.Precision, c.Scale)
	}
	return false
}

// Make returns a column that weir makes for values of the type.
func (c *Cast) Make(name string, key, textTypes bool) schema.Column {
	typ := c.Column(textTypes)
	if typ == schema.Any && c.Kind != Numeric && c.Kind != Base64Number {
		return schema.New(name, key)
	}
	return schema.Column{Name: name, Type: typ, Key: key, NotNull: key, New: true, Precision: c.Precision, Scale: c.Scale}
}

// Suits reports whether a column that exists has values of the type. Where it does not, weir may
// have made it for the values as they came: times are integers then.
func (c *Cast) Suits(x *schema.Column) bool {
	switch c.Kind {
	case Base64Number, Real, Timestamp, UUID, JSONText:
		if x.Own { // it is widened to them
			return true
		}
	}
	given := *x
	given.Own = false
	return c.Takes(&given)
}
