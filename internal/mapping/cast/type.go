// Package cast converts values of messages to the types of columns: each value gets the form that a column of the
// type stores, or a reason why it has none.
package cast

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weirsync/weir/internal/feed"
)

// A Type is the type that a column's values are converted to; see [ParseType].
type Type struct {
	Kind             TypeKind
	Precision, Scale int // of Numeric; 0, 0 means any
}

// TypeKind is the kind of a type.
type TypeKind string

// The kinds of types. The zero value means the table's type.
const (
	DefaultType TypeKind = ""
	Auto        TypeKind = "auto" // inferred from the values
	Text        TypeKind = "text"
	Integer     TypeKind = "integer"
	Real        TypeKind = "real"
	Numeric     TypeKind = "numeric"
	// Base64Number is a number in Kafka Connect's encoding: base64 of its digits without the point as a two's
	// complement integer, or an object with that as value, and scale.
	Base64Number TypeKind = "numeric_base64"
	Boolean      TypeKind = "boolean"
	JSON         TypeKind = "json"
	JSONText     TypeKind = "json_text" // JSON in a string
	Timestamp    TypeKind = "timestamp"
	TimestampUTC TypeKind = "timestamp_utc"
	TimestampMs  TypeKind = "timestamp_ms"
	TimestampUs  TypeKind = "timestamp_us"
	TimestampNs  TypeKind = "timestamp_ns"
	Date         TypeKind = "date"
	DateDays     TypeKind = "date_days"
	TimeMs       TypeKind = "time_ms" // of the day, as a number
	TimeUs       TypeKind = "time_us"
	TimeNs       TypeKind = "time_ns"
	UUID         TypeKind = "uuid"
	Bytes        TypeKind = "bytes"
	// Bits are bytes that are a bit string, the last bits first. Mappings cannot use it.
	Bits TypeKind = "bits"
	// Array is for JSON arrays whose elements have a cast. Mappings cannot use it.
	Array TypeKind = "array"
)

// maxPrecision is the limit of numeric in Postgres.
const maxPrecision = 1000

// ParseType parses a type: one of [TypeNames], numeric(p), numeric(p,s), numeric_base64(p) or numeric_base64(p,s).
func ParseType(text string) (Type, error) {
	name, rest, brackets := strings.Cut(text, "(")
	t := Type{Kind: TypeKind(strings.TrimSpace(name))}
	if !slices.Contains(TypeNames, t.Kind) {
		names := strings.Fields(strings.Trim(fmt.Sprint(TypeNames), "[]"))
		return Type{}, fmt.Errorf("unknown type %q%s", t.Kind, cmp.Or(feed.DidYouMean(string(t.Kind), names), ": there are "+strings.Join(names, ", ")))
	}
	if !brackets {
		return t, nil
	}
	inner, closed := strings.CutSuffix(rest, ")")
	precision, scale, both := strings.Cut(inner, ",")
	var perr, serr error
	t.Precision, perr = strconv.Atoi(strings.TrimSpace(precision))
	if both {
		t.Scale, serr = strconv.Atoi(strings.TrimSpace(scale))
	}
	switch {
	case t.Kind != Numeric && t.Kind != Base64Number:
		return Type{}, fmt.Errorf("type %q: only numeric and numeric_base64 have digits in parentheses", text)
	case !closed || perr != nil || serr != nil || t.Precision < 1 || t.Precision > maxPrecision || t.Scale < 0 || t.Scale > t.Precision:
		return Type{}, fmt.Errorf("type %q: must be %s(DIGITS,FRACTION), such as %[2]s(12,2), with %d digits at most", text, t.Kind, maxPrecision)
	}
	return t, nil
}

// String returns the type as [ParseType] reads it.
func (t Type) String() string {
	switch {
	case t.Precision == 0:
		return string(t.Kind)
	case t.Scale == 0:
		return fmt.Sprintf("%s(%d)", t.Kind, t.Precision)
	}
	return fmt.Sprintf("%s(%d,%d)", t.Kind, t.Precision, t.Scale)
}

// MarshalText implements [encoding.TextMarshaler].
func (t Type) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler] with [ParseType].
func (t *Type) UnmarshalText(text []byte) (err error) {
	*t, err = ParseType(string(text))
	return err
}

// CutAs splits "PATH as TYPE"; either part may be missing. A field may have the name as.
func CutAs(text string) (path, typ string, ok bool) {
	if rest, after := strings.CutPrefix(text, "as "); after && !strings.HasPrefix(strings.TrimSpace(rest)+" ", "as ") {
		return "", strings.TrimSpace(rest), true
	}
	quotes := false
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\' && quotes:
			i++
		case text[i] == '"':
			quotes = !quotes
		case !quotes && i > 0 && strings.HasPrefix(text[i:], " as "):
			return strings.TrimSpace(text[:i]), strings.TrimSpace(text[i+len(" as "):]), true
		}
	}
	return text, "", false
}
