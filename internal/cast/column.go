package cast

import (
	"fmt"
	"slices"

	"github.com/weirsync/weir/internal/schema"
)

// Column returns the type of a column that weir makes for the type; Any if its values decide.
func (t Type) Column(textTypes bool) schema.Type {
	if textTypes {
		return rules[t.Kind].text
	}
	return rules[t.Kind].column
}

// CanStoreIn reports whether a column can store values of the type.
func (t Type) CanStoreIn(c *schema.Column) bool {
	special := rules[t.Kind].storedIn
	if special == nil || c.Own || c.Type == schema.Any || c.Type == schema.External || slices.Contains(special, c.Type) {
		return true
	}
	return rules[t.Kind].column != schema.Bytes && (c.Type == schema.Text || c.Type == schema.Affine)
}

// MatchesDeclaration reports whether a column is declared exactly as weir declares it for the type, so the database
// accepts all values of the type.
func (c *Cast) MatchesDeclaration(x *schema.Column) bool {
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

// Make returns a new column for values of the type.
func (c *Cast) Make(name string, key, textTypes bool) schema.Column {
	typ := c.Column(textTypes)
	if typ == schema.Any && c.Kind != Numeric && c.Kind != Base64Number {
		return schema.New(name, key)
	}
	return schema.Column{Name: name, Type: typ, Key: key, NotNull: key, New: true, Precision: c.Precision, Scale: c.Scale}
}

// CanStoreOrWiden reports whether an existing column stores values of the type, or can be widened to. It may do
// neither: before weir knew the schema, it may have created the column for unconverted values, such as integers for
// times.
func (c *Cast) CanStoreOrWiden(x *schema.Column) bool {
	switch c.Kind {
	case Base64Number, Real, Timestamp, UUID, JSONText:
		if x.Own { // it is widened
			return true
		}
	}
	given := *x
	given.Own = false
	return c.CanStoreIn(&given)
}
