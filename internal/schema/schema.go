// Package schema knows tables: their columns and types, which values a column
// takes, how a type is inferred and widened, and what makes two keys one.
//
// It asks no database. A driver fills a [Table] from what its database says,
// and turns the types of new and widened columns into declarations.
package schema

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/merge"
)

// Type is what a column takes.
type Type uint8

// The types of columns.
const (
	Any    Type = iota // every value, each kept as it came
	Bool               // true and false
	Int                // whole numbers of 64 bits
	Real               // doubles
	Number             // numbers with every digit
	Text               // every value, as text
	JSON               // objects and arrays
	Affine             // every value, but text that looks like a number becomes one: SQLite's NUMERIC affinity

	// Types of tables that others made, in a database that reads a value of any
	// type from its text.
	UUID     // a UUID in any of its spellings
	Enum     // one of Column.Labels
	Day      // a date
	Instant  // a point in time
	Array    // arrays, from a JSON array or the database's own notation
	External // anything else: the database judges

	Bytes // bytes, as text in Postgres' notation: \xFF
	Rows  // a set of rows of another table; no database has such a column
)

func (t Type) String() string {
	return [...]string{"any", "boolean", "integer", "real", "number", "text", "json", "numeric",
		"uuid", "enum", "date", "time", "array", "external", "bytes", "rows"}[t]
}

// A Table is one table of a database, as a batch needs it: what it is to weir, and from Exists on what
// its driver says of it.
type Table struct {
	Name string
	// FullName is the same for all names that the database takes for the table.
	FullName string
	Columns  []Column
	Key      []int // indexes into Columns, in the order of --key; none: see [Table.Appends]
	// Refs are columns that name rows of other tables; if rows belong to such a row, the key as
	// the database has it is [Table.StoredKey].
	Refs []Ref
	// OnCreate is SQL that is run in the transaction that makes the table, behind that.
	OnCreate []string

	Exists bool
	// ID tells the table from another one that has or had its name, and from itself with
	// columns of weir's dropped, as far as the database can; "" where it does not exist.
	ID string
	// Altered is what others made of columns of weir's.
	Altered []Alteration
	// Writers are the jobs that have written to the table, by their names in weir_jobs.
	Writers []string
	// Made tells that weir made the table, and nobody gave it constraints since: new
	// fields become columns.
	Made bool
	// Ruled tells that weir made the table, and somebody gave it such constraints since.
	Ruled bool
	// HasConstraints tells that the database may refuse a row for what only it knows
	// (CHECK, triggers, foreign keys, other unique indexes, ones whose entries may be too long, …): a batch for the table, or for
	// one with columns that are Judged, keeps its messages, so that a row that is refused can
	// be tried message by message.
	HasConstraints bool
	// ForeignKeys are those of the table that weir made; where it does not exist, those that it
	// gets when weir makes it. They are no constraints to [Table.HasConstraints] and [Table.Made].
	ForeignKeys []ForeignKey
	// Referrers are the tables with such foreign keys to this one.
	Referrers []Referrer
	// Versioned tells that a run has kept the table by a version for each column.
	Versioned bool
	// Strict tells that each column of the table needs a type, where the database has
	// columns without one.
	Strict bool
}

// Appends reports whether the table has no key: each message is a row of its own.
func (t *Table) Appends() bool { return len(t.Key) == 0 }

// Rule says what made a table of weir's the user's, for people.
func (t *Table) Rule() string {
	for i := range t.Columns {
		c := &t.Columns[i]
		switch {
		case c.Serial:
		case c.Generated:
			return fmt.Sprintf("column %q is generated", c.Name)
		case c.Default != "":
			return fmt.Sprintf("column %q has a DEFAULT", c.Name)
		case c.NotNull && !c.Key:
			return fmt.Sprintf("column %q is NOT NULL", c.Name)
		}
	}
	return "it has a constraint, trigger or rule"
}

// Clone returns a copy that shares nothing that changes.
func (t *Table) Clone() Table {
	c := *t
	c.Columns = append([]Column(nil), t.Columns...)
	return c
}

// A Column is one column of a table.
type Column struct {
	Name string
	Key  bool
	Type Type
	// Size is the bytes of an Int or a Real (0: 8), and the maximum length of a Text (0: none) in characters, or in bytes if
	// Bytes is set.
	Size   int
	Bytes  bool
	Labels []string // of an Enum; for a Bool the strings that it takes
	// Precision and Scale are the digits of a Number that weir declares, and how many of them follow the point; 0, 0: any.
	Precision, Scale int

	// What the database says, by its driver.
	Decl      string // the type as it is declared
	NotNull   bool
	Default   string // the SQL of its default, "" where that is NULL
	Generated bool   // computed by the database, never written
	// Serial columns are outside the key, and the database gives each row an integer there that no other row has. A
	// [Table.Surrogate] is Generated, too.
	Serial bool
	ValueRules

	// What weir makes of it.
	New    bool // not in the database yet
	Hidden bool // in no database: a part of a parent's key, for which another column has the parent's generated key
	Stamp  Stamp
	Merge  merge.Function // how its values are merged
	Widening
}

// ValueRules are what the database does with a column's values, apart from their type.
type ValueRules struct {
	Collation Collation // of the key's index; nil: texts are equal if their bytes are
	Binary    bool      // values are bytes
	HoldsTime bool      // it stores the time of a flush unchanged
	Judged    bool      // the database may reject a value that the column accepts
	Finite    bool      // a Real or a Number takes neither NaN nor the infinities
}

// Widening says how a column's type may change to hold more values.
type Widening struct {
	Own   bool   // weir made the column, and widens it
	Exact bool   // it takes no number that a Real would round
	Held  string // what depends on weir's column, so it cannot be widened
	seen  class  // the values that weir's column has to hold
}

// A Collation is one of a database's by which different texts are equal. It has a type that can be compared.
type Collation interface {
	// Form returns the one form of all texts that are equal to text, which it may change in place.
	Form(text []byte) []byte
	String() string // what the database calls it
}

// class is a set of kinds of values, fine enough to choose a type by.
type class uint8

const (
	bools       class = 1 << iota
	smallInt          // whole and exact in a double
	bigInt            // whole, 64 bits
	reals             // printed again as they came by a double
	numbers           // any other number with at most as many digits as Postgres' numeric takes
	notDecimals       // NaN and the infinities, which JSON has as strings
	strs              // strings, and what is past any type of numbers
	jsons
	exact = smallInt | bigInt | reals // numbers of which 64 bits hold every digit
	all   = notDecimals | bools | smallInt | bigInt | reals | numbers | strs | jsons
)

// holds is what a column of the type takes without being widened. A column of weir's
// that is Any has seen nothing but nulls.
var holds = [Rows + 1]class{Bool: bools, Int: smallInt | bigInt, Real: smallInt | reals | notDecimals,
	Number: smallInt | bigInt | reals | numbers | notDecimals, Text: all, JSON: jsons}

func infer(seen class) Type {
	if seen == 0 {
		return Any
	}
	// JSON and Number are the wide ends of their kinds; a mixture of kinds is
	// text.
	for _, t := range []Type{Bool, Int, Real, Number, JSON} {
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
			return numbers // past 64 bits a whole number stays whole: as text
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

// Holds reports whether [Column.Admit] has nothing to do for values of the kind:
// so it is with most, and this is cheaper to call.
func (c *Column) Holds(k feed.Kind) bool {
	return k == feed.Null || c.Own && (c.seen == all || k == feed.String && c.seen&strs != 0)
}

// Admit decides whether the column takes a value, before anything is folded, so
// that the answer does not depend on where a batch ends. A column of weir's is
// widened until it does.
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
	if c.takes(value, k) {
		return nil
	}
	held := ""
	if c.Held != "" {
		held = ", and cannot be widened: " + c.Held
	}
	return feed.Errorf(feed.BadValue, "column %q is %s and cannot take %s %q as it is%s", c.Name, c.Declared(), k, feed.Clip(feed.Text(nil, value, k)), held)
}

// needs is what the column has to hold for a value.
func (c *Column) needs(value []byte, k feed.Kind) class {
	s := classify(value, k)
	if c.Merge == merge.Sum && s&holds[Number] != 0 {
		return holds[Number]
	}
	return s
}

// Declared is the type of the column for people.
func (c *Column) Declared() string {
	if c.Decl == "" {
		return c.Type.String()
	}
	return c.Decl
}

// wholeKey reports whether value is the text of a whole number in a key of whole
// numbers: 1 and "1" are one key.
func (c *Column) wholeKey(value []byte, k feed.Kind) bool {
	return c.Key && c.Type == Int && c.seen != 0 && k == feed.String && canonicalInt(feed.Text(nil, value, k))
}

// takes is the rule of a column that weir must take as it is: a value has to
// survive the column's conversion, or the column's type has to ask for it.
func (c *Column) takes(value []byte, k feed.Kind) bool {
	number, isNumber := value, k == feed.Int || k == feed.Number
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
			return err == nil && (f != 0 || zero(number))
		}
		_, exact, ok := feed.ParseReal(number)
		return ok && (exact || !c.Exact)
	case Text:
		if c.Size == 0 || len(value) <= c.Size {
			return true
		}
		text := feed.Text(nil, value, k)
		if c.Collation != nil { // blanks at the end need not count
			text = c.Collation.Form(bytes.Clone(text))
		}
		return len(text) <= c.Size || !c.Bytes && utf8.RuneCount(text) <= c.Size
	case JSON:
		return k != feed.JSON || !hasHuge(value)
	case UUID:
		_, ok := AppendUUID(nil, feed.Text(nil, value, k))
		return ok
	case Enum:
		return slices.Contains(c.Labels, string(feed.Text(nil, value, k)))
	case Day, Instant:
		// The database reads many spellings of a date; of a key's, weir must know
		// which are equal.
		_, ok := c.appendTime(nil, feed.Text(nil, value, k))
		return ok || !c.Key
	case Bytes:
		text, isHex := bytes.CutPrefix(feed.Text(nil, value, k), []byte(`\x`))
		_, err := hex.Decode(make([]byte, hex.DecodedLen(len(text))), text)
		return isHex && err == nil
	case Affine:
		if isNumber {
			return classify(value, k)&exact != 0
		}
		return k != feed.String || !bends(feed.Text(nil, value, k))
	}
	return true
}

// bends reports whether NUMERIC affinity would change a text: it looks like a
// number, and the number would print otherwise.
func bends(s []byte) bool {
	t := bytes.TrimSpace(s)
	if f, err := strconv.ParseFloat(string(t), 64); err != nil && f == 0 || bytes.ContainsAny(t, "xXpP_nN") {
		return false // no number to SQLite: words, hex, Inf and NaN
	}
	return !canonicalInt(s)
}

func canonicalInt(s []byte) bool {
	n, err := strconv.ParseInt(string(s), 10, 64)
	return err == nil && strconv.FormatInt(n, 10) == string(s)
}

// AppendKey appends the form of a key's value in which two values are equal
// exactly where the database would say so. The value was admitted before.
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

// KeyText is the way back of AppendKey: the text of a value that has this key. It is not changed, nor kept, but for numbers and
// points in time.
func (c *Column) KeyText(key []byte) []byte {
	switch digits, exp, ok := bytes.Cut(key, []byte("e")); {
	case c.Type == Instant:
		n, _ := strconv.ParseInt(string(key), 10, 64)
		return time.UnixMicro(n).UTC().AppendFormat(nil, time.RFC3339Nano)
	case c.Type == Number && ok: // the point is before the digits
		n, _ := strconv.ParseInt(string(exp), 10, 64)
		n -= int64(len(bytes.TrimPrefix(digits, []byte("-"))))
		return strconv.AppendInt(append(bytes.Clone(digits), 'e'), n, 10)
	}
	return key
}

// appendNumber appends one spelling for all texts of a number, or of a Real for
// all those of a double. A double that is whole is spelled as an integer.
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

// New returns the column of a field that the database does not have yet.
func New(name string, key bool) Column {
	return Column{Name: name, Key: key, NotNull: key, New: true, Widening: Widening{Own: true}}
}

// NewOf returns the same for values that are known to be of a type up to [JSON]. It is weir's to widen
// all the same.
func NewOf(name string, key bool, t Type) Column {
	c := New(name, key)
	c.widen(holds[t])
	return c
}

// TakesBytes reports whether the column takes bytes, as far as the database says.
func (c *Column) TakesBytes() bool { return c.Type == Any || c.Binary }

// KeyColumns returns the names of the columns of the key as the database has it.
func (t *Table) KeyColumns() []string {
	key := t.StoredKey()
	names := make([]string, len(key))
	for i, k := range key {
		names[i] = t.Columns[k].Name
	}
	return names
}

// KeyNames returns them, quoted for people.
func (t *Table) KeyNames() string {
	names := t.KeyColumns()
	for i := range names {
		names[i] = fmt.Sprintf("%q", names[i])
	}
	return strings.Join(names, ", ")
}

// Surrogate returns the column with the keys that the database generates, -1 for none.
func (t *Table) Surrogate() int {
	return slices.IndexFunc(t.Columns, func(c Column) bool { return c.Serial && c.Generated })
}
