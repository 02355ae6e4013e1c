package cast

import (
	"fmt"
	"slices"

	"github.com/weirsync/weir/internal/fold/schema"
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
	if special == nil || c.Own || c.Typed || c.Type == schema.Any || c.Type == schema.External || slices.Contains(special, c.Type) {
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
	typ := c.Column(false)
	if typ == schema.Any {
		return schema.New(name, key)
	}
	return schema.NewTyped(schema.Column{Name: name, Type: c.Column(textTypes), Key: key, Precision: c.Precision, Scale: c.Scale}, typ)
}
