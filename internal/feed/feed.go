// Package feed cuts a line of a feed into the fields of one message.
//
// A line is validated and cut in one pass; values stay raw bytes of the line
// until somebody needs them decoded. The package accepts strict JSON (RFC 8259
// with I-JSON's strings): what it accepts, any other parser accepts, with the
// same values.
package feed

import "fmt"

const (
	maxDepth  = 1000 // levels of nesting
	maxNumber = 4096 // characters; keeps a number from being a denial of service for whoever converts it
	// maxFields bounds the memory of a line's fields, which take 32 bytes each. No table has that
	// many columns.
	maxFields = 1 << 16
)

// A Field is one member of a message's object, or a value that was made in the place of one.
type Field struct {
	// Value is raw JSON without white space around it. A scanner's points into the line.
	Value []byte
	// Name is the number of the name in the scanner's [Names], or below 0 that of a name
	// without a number: ^Name is its index in [Line.Unnumbered].
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

// Reason says why a line was rejected, in the few words that a metric's label
// takes.
type Reason string

// Why lines are rejected.
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
	Unmatched    Reason = "unmatched" // no table takes it
	Database     Reason = "database"
)

// Reasons lists every reason, for metrics that start at zero.
var Reasons = []Reason{NotJSON, Truncated, TrailingData, NotObject, InvalidUTF8, Surrogate,
	TooDeep, TooLong, BadKey, BadName, BadValue, BadColumn, BadVersion, Unmatched, Database}

// An Error tells why a line cannot become a message.
type Error struct {
	Reason Reason
	Detail string // for people; quotes what it takes from the line
}

func (e *Error) Error() string { return e.Detail }

// Errorf makes an Error.
func Errorf(r Reason, format string, args ...any) *Error {
	return &Error{r, fmt.Sprintf(format, args...)}
}
