// Package feed splits a line of a feed into the fields of a message.
//
// A line is validated and split in one pass; values stay raw bytes of the line until they are needed in another form.
// The package accepts strict JSON (RFC 8259 with I-JSON's strings): every other parser accepts the same lines with
// the same values.
package feed

import "fmt"

const (
	maxDepth  = 1000 // levels of nesting
	maxNumber = 4096 // characters; so converting a number cannot take forever
	// maxFields limits the memory of a line's fields, which take 32 bytes each. No table has that many columns.
	maxFields = 1 << 16
)

// A Field is one member of a message's object, or a value made from one.
type Field struct {
	// Value is raw JSON without surrounding white space. A scanner's fields point into the line.
	Value []byte
	// Name is the number of the name in the scanner's [Names]. If it is negative, the name has no number, and ^Name
	// is its index in [Line.Unnumbered].
	Name int32
	Kind Kind
}

// Kind is the form of a value.
type Kind uint8

// The forms of a JSON value that matter to a table.
const (
	Null   Kind = iota
	Bool        // true, false
	Int         // a number without fraction and exponent, of any length
	Number      // any other number
	String
	JSON // an object or an array
)

func (k Kind) String() string {
	return [...]string{"null", "boolean", "integer", "number", "string", "object or array"}[k]
}

// Reason is why a line was rejected, short enough for a metric's label.
type Reason string

// The reasons for rejecting lines.
const (
	NotJSON      Reason = "not_json"
	Truncated    Reason = "truncated"
	TrailingData Reason = "trailing_data"
	NotObject    Reason = "not_object"
	InvalidUTF8  Reason = "invalid_utf8"
	Surrogate    Reason = "lone_surrogate"
	TooDeep      Reason = "too_deep"
	TooLong      Reason = "too_long"
	BadKey       Reason = "key"
	BadName      Reason = "name"
	BadValue     Reason = "value"
	BadColumn    Reason = "column"
	BadVersion   Reason = "version"
	Unmatched    Reason = "unmatched" // no table accepts it
	Database     Reason = "database"
)

// Reasons has all reasons, for metrics that start at zero.
var Reasons = []Reason{NotJSON, Truncated, TrailingData, NotObject, InvalidUTF8, Surrogate,
	TooDeep, TooLong, BadKey, BadName, BadValue, BadColumn, BadVersion, Unmatched, Database}

// An Error is why a line is not a valid message.
type Error struct {
	Reason Reason
	Detail string // for users; quotes parts of the line
}

func (e *Error) Error() string { return e.Detail }

// Errorf returns an Error.
func Errorf(r Reason, format string, args ...any) *Error {
	return &Error{r, fmt.Sprintf(format, args...)}
}
