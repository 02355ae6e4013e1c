package cast

import (
	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold/schema"
)

// TypeNames are the names of all types.
var TypeNames = []TypeKind{Auto, Text, Integer, Real, Numeric, Base64Number, Boolean, JSON, JSONText, Timestamp, TimestampUTC, TimestampMs, TimestampUs, TimestampNs, Date, DateDays, TimeMs, TimeUs, TimeNs, UUID, Bytes}

// A rule describes a kind of types.
type rule struct {
	article string // the name with its article, for messages; "" means "a" and the name
	keeps   uint8  // the kinds of values, besides null, that need no conversion, a bit for each
	read    func(r *Reader, v *feed.Field, c *Cast) (feed.Field, string)
	shift   int // number of decimal digits of a second in a numeric point in time
	// column and text are the types of columns that weir makes: in a database with types for times and JSON, and in
	// one without. Any means that the values decide.
	column, text schema.Type
	// storedIn are the column types that can store the values, in addition to text types (which cannot store bytes);
	// nil means all types can.
	storedIn []schema.Type
}

var (
	numbers  = []schema.Type{schema.Real, schema.Number, schema.JSON}
	moments  = []schema.Type{schema.Instant}
	days     = []schema.Type{schema.Day, schema.Instant}
	textOnly = []schema.Type{}
)

var rules = map[TypeKind]rule{
	DefaultType:  {keeps: anyKind},
	Auto:         {keeps: anyKind},
	Text:         {keeps: 1 << feed.String, read: (*Reader).readText, column: schema.Text, text: schema.Text},
	Integer:      {article: "an integer", read: (*Reader).readInteger, column: schema.Int, text: schema.Int, storedIn: append([]schema.Type{schema.Int}, numbers...)},
	Real:         {read: (*Reader).readReal, column: schema.Real, text: schema.Real, storedIn: numbers},
	Numeric:      {read: (*Reader).readNumeric, column: schema.Number, storedIn: numbers},
	Base64Number: {article: "a number in base64", read: (*Reader).readBase64Number, column: schema.Number, storedIn: numbers},
	Boolean:      {keeps: 1 << feed.Bool, read: (*Reader).readBoolean, column: schema.Bool, text: schema.Bool, storedIn: []schema.Type{schema.Bool, schema.Bits, schema.JSON}},
	JSON:         {article: "JSON", keeps: 1 << feed.JSON, read: (*Reader).readJSON, column: schema.JSON, text: schema.Text, storedIn: []schema.Type{schema.JSON}},
	JSONText:     {article: "JSON in a text", keeps: 1 << feed.JSON, read: (*Reader).readJSONText, column: schema.JSON, text: schema.Text, storedIn: []schema.Type{schema.JSON}},
	Timestamp:    {article: "a timestamp", read: (*Reader).readTime, column: schema.Instant, text: schema.Text, storedIn: moments},
	TimestampUTC: {article: "a timestamp", read: (*Reader).readTime, column: schema.Instant, text: schema.Text, storedIn: moments},
	TimestampMs:  {article: "a timestamp", shift: 3, read: (*Reader).readTime, column: schema.Instant, text: schema.Text, storedIn: moments},
	TimestampUs:  {article: "a timestamp", shift: 6, read: (*Reader).readTime, column: schema.Instant, text: schema.Text, storedIn: moments},
	TimestampNs:  {article: "a timestamp", shift: 9, read: (*Reader).readTime, column: schema.Instant, text: schema.Text, storedIn: moments},
	Date:         {article: "a date", read: (*Reader).readDate, column: schema.Day, text: schema.Text, storedIn: days},
	DateDays:     {article: "a date", read: (*Reader).readDays, column: schema.Day, text: schema.Text, storedIn: days},
	TimeMs:       {article: "a time of day", shift: 3, read: (*Reader).readTimeOfDay, column: schema.Text, text: schema.Text, storedIn: textOnly},
	TimeUs:       {article: "a time of day", shift: 6, read: (*Reader).readTimeOfDay, column: schema.Text, text: schema.Text, storedIn: textOnly},
	TimeNs:       {article: "a time of day", shift: 9, read: (*Reader).readTimeOfDay, column: schema.Text, text: schema.Text, storedIn: textOnly},
	UUID:         {article: "a UUID", read: (*Reader).readUUID, column: schema.UUID, text: schema.Text, storedIn: []schema.Type{schema.UUID}},
	Bytes:        {article: "bytes in base64", read: (*Reader).readBytes, column: schema.Bytes, text: schema.Bytes, storedIn: []schema.Type{schema.Bytes}},
	Bits:         {article: "bits in base64", read: (*Reader).readBits, column: schema.Bytes, text: schema.Bytes, storedIn: []schema.Type{schema.Bytes, schema.Bits}},
	Array:        {article: "an array", column: schema.JSON, text: schema.Text, storedIn: []schema.Type{schema.JSON, schema.Array, schema.JSONs}},
}
