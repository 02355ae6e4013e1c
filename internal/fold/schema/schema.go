// Package schema describes tables: their columns and types, the values that a column accepts, how a type is inferred
// and widened, and which keys are equal.
//
// It needs no database. A driver fills a [Table] from the database's catalog, and turns the types of new and widened
// columns into SQL.
package schema

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold/merge"
)

// Type is the kind of values that a column accepts.
type Type uint8

// The types of columns.
const (
	Any    Type = iota // any value, unchanged
	Bool               // true and false
	Int                // integers of 64 bits
	Real               // doubles
	Number             // decimals with all digits
	Text               // any value, as text
	JSON               // objects and arrays
	Affine             // any value, but text that looks like a number becomes one: SQLite's NUMERIC affinity

	// The types below occur in tables that others made, in a database that reads values of any type from text.
	UUID     // a UUID in any of its spellings
	Enum     // one of Column.Labels
	Day      // a date
	Instant  // a point in time
	Array    // arrays, from a JSON array or the database's own syntax
	JSONs    // arrays whose elements are any JSON
	Bits     // strings of 0 and 1; true is 1, false is 0
	External // anything else: only the database knows what it accepts

	Bytes // bytes, as text in Postgres' notation: \xFF
	Rows  // a set of rows of another table; not stored
)

func (t Type) String() string {
	return [...]string{"any", "boolean", "integer", "real", "number", "text", "json", "numeric",
		"uuid", "enum", "date", "time", "array", "array", "bits", "external", "bytes", "rows"}[t]
}

// A Table is one table of a database as a batch needs it. The fields from Exists on are set by the driver.
type Table struct {
	Name string
	// FullName is the same for all names of the table that the database accepts.
	FullName string
	Columns  []Column
	Key      []int // indexes into Columns, in the order of --key; none: see [Table.Appends]
	// Refs are the columns with generated keys of rows of other tables. If one of those is the parent, the key in the
	// database is [Table.StoredKey].
	Refs []Ref
	// OnCreate is SQL that runs after the table is created, in the same transaction.
	OnCreate []string

	Exists bool
	// ID changes if the table is replaced by another one of its name, or if columns that weir made are dropped, as
	// far as the database tells; "" if the table does not exist.
	ID string
	// Altered are changes that others made to columns that weir made.
	Altered []Alteration
	// Writers are the jobs that have written to the table: names in weir_jobs.
	Writers []string
	// Made: weir created the table and nobody has added constraints. Unknown fields become columns.
	Made bool
	// Ruled: weir created the table and somebody has added constraints.
	Ruled bool
	// HasConstraints: the database may reject a row for reasons that only it knows, such as CHECK, triggers, foreign
	// keys, other unique indexes or entries too long for an index. A batch for such a table, or for one with a column
	// that is Judged, keeps its messages, so a rejected row can be retried message by message.
	// The fold also sets it for other tables whose messages must be kept ([fold.Folders.Link]), and clears it for elements
	// of sets.
	HasConstraints bool
	// ForeignKeys are the foreign keys that weir made, or will make with the table. They do not count for
	// [Table.HasConstraints] and [Table.Made].
	ForeignKeys []ForeignKey
	// Referrers are the tables with a foreign key to this one that weir made.
	Referrers []Referrer
	// Versioned: a run has stored a version per column of this table.
	Versioned bool
	// Strict: each column needs a type, although the database has columns without one.
	Strict bool
}

// Appends reports whether the table has no key, so each message becomes a row.
func (t *Table) Appends() bool { return len(t.Key) == 0 }

// Clone returns a copy whose columns can be changed independently.
func (t *Table) Clone() Table {
	c := *t
	c.Columns = append([]Column(nil), t.Columns...)
	return c
}

// SequenceDefault is the default of a column that takes the next number of a sequence, for messages.
const SequenceDefault = "the next number of its sequence"

// GeneratesNumbers reports whether the column takes the next number of a sequence in rows that do not name it.
func (c *Column) GeneratesNumbers() bool {
	return c.Default == SequenceDefault || strings.HasPrefix(c.Default, "nextval(")
}

// A Column is one column of a table.
type Column struct {
	Name string
	Key  bool
	Type Type
	// Size is the size in bytes of an Int or a Real (0 means 8), the maximum length of a Text (0 means unlimited)
	// in characters, or the length of Bits (0 means that it varies).
	Size   int
	Labels []string // of an Enum; of a Bool: the strings that it accepts
	// Precision and Scale are the digits of a Number, in all and after the point; 0, 0 means any.
	Precision, Scale int

	// The next fields are what the driver found in the database.
	Decl      string // the declared type
	NotNull   bool
	Default   string // SQL of the default value; "" for NULL
	Generated bool   // computed by the database, never written
	// Serial: outside the key, and the database generates a unique integer for each row. A [Table.Surrogate] is also
	// Generated.
	Serial bool
	ValueRules

	// The next fields are what weir decides.
	New    bool // not in the database yet
	Hidden bool // not in the database: a part of a parent's key, which is stored as the parent's generated key in another column
	Stamp  Stamp
	Merge  merge.Function // how its values are merged
	Widening
}

// ValueRules say how the database treats a column's values, besides their type.
type ValueRules struct {
	Collation Collation // of the key's index; nil: texts are equal if their bytes are
	Binary    bool      // values are bytes
	HoldsTime bool      // it stores the time of a flush unchanged
	Judged    bool      // the database may reject a value that the column accepts
	Finite    bool      // a Real or Number accepts neither NaN nor infinities
	Timed     bool      // values are times, dates or intervals, or arrays of them
	Decimal   bool      // an Affine takes numbers in strings
}

// Widening says how a column's type may change to hold more values.
type Widening struct {
	Own bool // weir made the column, and widens it for each value
	// Typed: weir made the column for values of a declared type, and widens it only for another one: see
	// [Column.Declare].
	Typed bool
	Exact bool   // it rejects numbers that a Real would round
	Held  string // what depends on weir's column, so it cannot be widened; "" if nothing does
	seen  class  // the values that weir's column has to hold
}

// A Collation treats different texts as equal. Its type must be comparable.
type Collation interface {
	// Form returns the canonical form of all texts that are equal to text. It may change text in place.
	Form(text []byte) []byte
	String() string // what the database calls it
}

// class is a set of kinds of values, as detailed as choosing a type requires.
type class uint16

const (
	bools       class = 1 << iota
	smallInt          // whole and exact in a double
	bigInt            // whole, 64 bits
	reals             // a double keeps their digits
	numbers           // any other number with at most as many digits as Postgres' numeric takes
	notDecimals       // NaN and infinities, which are strings in JSON
	strs              // strings, and numbers too large for any type
	jsons
	instants // this and the next are of declared types: no value alone says that it is one
	days
	uuids
	byteStrings
	exact = smallInt | bigInt | reals // numbers that 64 bits hold exactly
	times = instants | days
	all   = notDecimals | bools | smallInt | bigInt | reals | numbers | strs | jsons | times | uuids
)

// holds says which values a type accepts without being widened. A column that weir made with type Any has had only
// nulls.
var holds = [Rows + 1]class{Bool: bools, Int: smallInt | bigInt, Real: smallInt | reals | notDecimals,
	Number: smallInt | bigInt | reals | numbers | notDecimals, Text: all, JSON: jsons, Instant: instants, Day: days,
	UUID: uuids, Bytes: byteStrings}

func infer(seen class) Type {
	if seen == 0 {
		return Any
	}
	// Number holds all numbers, and JSON all objects and arrays; a mixture of kinds is text.
	for _, t := range []Type{Bool, Int, Real, Number, JSON, Instant, Day, UUID, Bytes} {
		if seen&^holds[t] == 0 {
			return t
		}
	}
	return Text
}

func classify(value []byte, k feed.Kind) class {
	switch k {
	case feed.Bool:
		return bools
	case feed.String:
		if isSpecial(value) {
			return notDecimals
		}
		return strs
	case feed.JSON:
		if hasHuge(value) {
			return strs
		}
		return jsons
	case feed.Int:
		if len(value) <= 15 && string(value) != "-0" {
			return smallInt
		}
		if n, ok := feed.ParseInt(value, k); ok {
			if -1<<53 <= n && n <= 1<<53 {
				return smallInt
			}
			return bigInt
		} else if string(value) != "-0" {
			return numbers // an integer over 64 bits is stored as a decimal and stays an integer
		}
	}
	if _, exact, ok := feed.ParseReal(value); ok && exact {
		return reals
	}
	if huge(value) {
		return strs
	}
	return numbers
}

// Holds reports whether [Column.Admit] does nothing for values of a kind. This is true for most values, and cheaper
// to call.
func (c *Column) Holds(k feed.Kind) bool {
	return k == feed.Null || c.Own && (c.seen == all || k == feed.String && c.seen&strs != 0)
}

// Admit returns an error if the column does not accept a value. It is called before the value is folded, so the
// answer does not depend on where a batch ends. A column that weir made is widened until it accepts the value.
func (c *Column) Admit(value []byte, k feed.Kind) *feed.Error {
	if k == feed.Null {
		return nil
	}
	if c.Own {
		if s := c.needs(value, k); s&^c.seen != 0 && !c.wholeKey(value, k) {
			c.widen(s)
		}
		return nil
	}
	if c.accepts(value, k) {
		return nil
	}
	why := ""
	switch {
	case c.Held != "":
		why = ", and cannot be widened: " + c.Held
	case c.lacksUnit(value, k):
		why = ": a number needs a cast in a config file that says its unit" + c.timeCasts()
	}
	return feed.Errorf(feed.BadValue, "column %q is %s and cannot take %s %q as it is%s", c.Name, c.Declared(), k, feed.Clip(feed.Text(nil, value, k)), why)
}

// needs returns what the column must hold for a value.
func (c *Column) needs(value []byte, k feed.Kind) class {
	s := classify(value, k)
	if c.Merge == merge.Sum && s&holds[Number] != 0 {
		return holds[Number]
	}
	return s
}

// Declared returns the column's type for messages to users.
func (c *Column) Declared() string {
	if c.Decl == "" {
		return c.Type.String()
	}
	return c.Decl
}

// wholeKey reports whether value is the text of an integer in an integer key: 1 and "1" are the same key.
func (c *Column) wholeKey(value []byte, k feed.Kind) bool {
	return c.Key && c.Type == Int && c.seen != 0 && k == feed.String && canonicalInt(feed.Text(nil, value, k))
}

// accepts reports whether a column that weir cannot widen accepts a value: the value must survive conversion to the
// type unless the type is meant to change it.
func (c *Column) accepts(value []byte, k feed.Kind) bool {
	number, isNumber := value, k == feed.Int || k == feed.Number
	if c.lacksUnit(value, k) {
		return false
	}
	switch c.Type {
	case Bool:
		return k == feed.Bool || string(value) == "0" || string(value) == "1" || k == feed.String && slices.Contains(c.Labels, string(feed.Text(nil, value, k)))
	case Int:
		if k == feed.String {
			number, k = feed.Text(nil, value, k), feed.Int
			isNumber = canonicalInt(number)
		}
		if !isNumber {
			return false
		}
		n, ok := feed.ParseInt(number, k)
		bits := c.Size * 8
		return ok && (bits == 0 || n>>(bits-1) == n>>63)
	case Real, Number:
		if k == feed.String {
			if number = feed.Text(nil, value, k); Special(number) != nil {
				return !c.Finite && !c.Exact && !c.Key && !c.Merge.Computes()
			}
			_, isNumber = feed.IsNumber(number)
		}
		if !isNumber || c.Type == Number {
			return isNumber && !huge(number)
		}
		if c.Size == 4 {
			f, err := strconv.ParseFloat(string(number), 32)
			return err == nil && (f != 0 || feed.IsZero(number))
		}
		_, exact, ok := feed.ParseReal(number)
		return ok && (exact || !c.Exact)
	case Text:
		if c.Size == 0 || len(value) <= c.Size {
			return true
		}
		text := feed.Text(nil, value, k)
		if c.Collation != nil { // trailing blanks may not count
			text = c.Collation.Form(bytes.Clone(text))
		}
		return utf8.RuneCount(text) <= c.Size
	case JSON:
		return k != feed.JSON || !hasHuge(value)
	case UUID:
		_, ok := AppendUUID(nil, feed.Text(nil, value, k))
		return ok
	case Enum:
		return slices.Contains(c.Labels, string(feed.Text(nil, value, k)))
	case Day, Instant:
		// The database reads many spellings of a date; for a key, weir must know which are equal.
		if c.Key {
			_, ok := c.appendTime(nil, feed.Text(nil, value, k))
			return ok
		}
	case Bytes:
		text, isHex := bytes.CutPrefix(feed.Text(nil, value, k), []byte(`\x`))
		_, err := hex.Decode(make([]byte, hex.DecodedLen(len(text))), text)
		return isHex && err == nil
	case Affine:
		if k == feed.String {
			if number = feed.Text(nil, value, k); !c.Decimal || c.Key {
				return !affinityChanges(number)
			}
			if k, isNumber = feed.IsNumber(number); !isNumber {
				return !affinityChanges(number)
			}
		}
		return !isNumber || classify(number, k)&exact != 0
	}
	return true
}

// lacksUnit reports whether a value for a column of times is a number, also in a string or in an array. Postgres would
// read 20260101 as a date.
func (c *Column) lacksUnit(value []byte, k feed.Kind) bool {
	switch {
	case !c.Timed && c.Type != Day && c.Type != Instant || k == feed.Bool:
		return false
	case k == feed.JSON:
		for w := feed.Walk(value); w.Next(); {
			if w.Kind != feed.JSON && c.lacksUnit(w.Raw(), w.Kind) {
				return true
			}
		}
		return false
	}
	_, isNumber := feed.AsNumber(bytes.TrimSpace(feed.Text(nil, value, k)))
	return isNumber
}

// timeCasts names the casts that read numbers as values of a column of times; there is none for arrays.
func (c *Column) timeCasts() string {
	switch {
	case c.Type == Array:
		return ""
	case c.Type == Day:
		return ": date_days"
	case c.Type == Instant, c.local():
		return ": timestamp (seconds), timestamp_ms, timestamp_us or timestamp_ns"
	}
	return ": time_ms, time_us or time_ns"
}

// affinityChanges reports whether NUMERIC affinity would change a text: it looks like a number that would be printed
// differently.
func affinityChanges(s []byte) bool {
	t := bytes.TrimSpace(s)
	if f, err := strconv.ParseFloat(string(t), 64); err != nil && f == 0 || bytes.ContainsAny(t, "xXpP_nN") {
		return false // not a number for SQLite: words, hex, Inf and NaN
	}
	return !canonicalInt(s)
}

func canonicalInt(s []byte) bool {
	n, err := strconv.ParseInt(string(s), 10, 64)
	return err == nil && strconv.FormatInt(n, 10) == string(s)
}

// AppendKey appends the canonical form of a key's value: two forms are equal if the database treats the values as
// equal. The value must have been admitted.
func (c *Column) AppendKey(dst, value []byte, k feed.Kind) []byte {
	switch c.Type {
	case UUID:
		dst, _ = AppendUUID(dst, feed.Text(nil, value, k))
		return dst
	case Day, Instant:
		dst, _ = c.appendTime(dst, feed.Text(nil, value, k))
		return dst
	case Bytes:
		return append(dst, bytes.ToLower(feed.Text(nil, value, k))...)
	case Text, Enum:
	default:
		text := feed.Text(nil, value, k)
		switch {
		case k == feed.Bool || c.Type == Bool && k == feed.String:
			if text[0] == 't' {
				return append(dst, '1')
			}
			return append(dst, '0')
		case c.Type == Any && classify(value, k)&exact == 0:
			dst = append(dst, '\'') // without a type, '1' is not 1
		default:
			if dst, ok := c.appendNumber(dst, text); ok {
				return dst
			}
		}
	}
	from := len(dst)
	dst = feed.AppendText(dst, value, k)
	if c.Collation != nil {
		dst = append(dst[:from], c.Collation.Form(dst[from:])...)
	}
	return dst
}

// appendNumber appends one spelling for all texts of a number; in a Real, for all texts of the same double. A whole
// double is spelled as an integer.
func (c *Column) appendNumber(dst, text []byte) (_ []byte, ok bool) {
	k, ok := feed.IsNumber(text)
	if !ok {
		return dst, false
	}
	if c.Type != Real {
		if n, ok := feed.ParseInt(text, k); ok {
			return strconv.AppendInt(dst, n, 10), true
		}
	}
	if c.Type == Number {
		return feed.AppendDecimal(dst, text), true
	}
	f, _ := strconv.ParseFloat(string(text), 64)
	if f == math.Trunc(f) && -1<<63 <= f && f < 1<<63 {
		return strconv.AppendInt(dst, int64(f), 10), true
	}
	return strconv.AppendFloat(dst, f, 'g', -1, 64), true
}

// New returns a column for a field that the database does not have yet.
func New(name string, key bool) Column {
	return Column{Name: name, Key: key, NotNull: key, New: true, Widening: Widening{Own: true}}
}

// NewOf returns the same for values of a known type up to [JSON]. weir may still widen it.
func NewOf(name string, key bool, t Type) Column {
	c := New(name, key)
	c.widen(holds[t])
	return c
}

// NewTyped returns a new column for values of a declared type. t is what they are, and c.Type the type that stores them.
func NewTyped(c Column, t Type) Column {
	c.New, c.NotNull, c.Typed, c.seen = true, c.Key, true, holds[t]
	return c
}

// TakesBytes reports whether the column may hold bytes, according to the database.
func (c *Column) TakesBytes() bool { return c.Type == Any || c.Binary }

// KeyColumns returns the names of the key's columns in the database.
func (t *Table) KeyColumns() []string {
	key := t.StoredKey()
	names := make([]string, len(key))
	for i, k := range key {
		names[i] = t.Columns[k].Name
	}
	return names
}

// KeyNames returns these names quoted, for messages.
func (t *Table) KeyNames() string {
	names := t.KeyColumns()
	for i := range names {
		names[i] = fmt.Sprintf("%q", names[i])
	}
	return strings.Join(names, ", ")
}

// Surrogate returns the index of the column with database-generated keys, -1 for none.
func (t *Table) Surrogate() int {
	return slices.IndexFunc(t.Columns, func(c Column) bool { return c.Serial && c.Generated })
}
