package sqlite

import (
	"bytes"
	"encoding/hex"
	"math"
	"strconv"

	lib "modernc.org/sqlite/lib"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold/schema"
)

// stampFormat is the format of stamps: the one of SQLite's own functions.
const stampFormat = "2006-01-02 15:04:05.000"

// value is a feed's value in SQLite's form.
type value struct {
	text []byte // the batch's memory, or its own if escapes were resolved
	int  int64  // or the bits of a float
	kind int32  // SQLITE_NULL, SQLITE_INTEGER, SQLITE_FLOAT, SQLITE_TEXT, SQLITE_BLOB; 0: none; or initial
	late bool   // for an existing row only, not for an insert
}

// initial is the kind of a value that is the column's default. It is never bound: only the database knows it.
const initial = -1

var null = value{kind: lib.SQLITE_NULL}

func text(s string) value { return value{kind: lib.SQLITE_TEXT, text: []byte(s)} }

func blob(b []byte) value { return value{kind: lib.SQLITE_BLOB, text: b} }

func integer(n int64) value { return value{kind: lib.SQLITE_INTEGER, int: n} }

func realValue(f float64) value {
	return value{kind: lib.SQLITE_FLOAT, int: int64(math.Float64bits(f))}
}

// real returns the number of a SQLITE_FLOAT.
func (v *value) real() float64 { return math.Float64frombits(uint64(v.int)) }

// convert converts a value, which the column accepted before.
func convert(raw []byte, t schema.Type) value {
	k := feed.KindOf(raw)
	if k == feed.Null {
		return null
	}
	text := feed.Text(nil, raw, k)
	switch t {
	case schema.Text:
		return value{kind: lib.SQLITE_TEXT, text: text}
	case schema.Bytes:
		bytes, _ := hex.AppendDecode(nil, text[len(`\x`):])
		return blob(bytes)
	}
	number := k
	if k == feed.String && (t == schema.Int || t == schema.Real || t == schema.Affine) {
		if is, ok := feed.IsNumber(text); ok { // otherwise it is NaN or an infinity, which is text here
			number = is
		}
	}
	switch {
	case k == feed.Bool && raw[0] == 't':
		return integer(1)
	case k == feed.Bool:
		return integer(0)
	case number != feed.Int && number != feed.Number:
	case t == schema.Real:
		f, _, _ := feed.ParseReal(text)
		return realValue(f)
	default:
		if number == feed.Int || t == schema.Int {
			if n, ok := feed.ParseInt(text, number); ok {
				return integer(n)
			} else if number == feed.Int && string(text) != "-0" {
				break
			}
		}
		// A number that SQLite cannot represent exactly stays text.
		if f, exact, ok := feed.ParseReal(text); ok && exact {
			return realValue(f)
		}
	}
	return value{kind: lib.SQLITE_TEXT, text: text}
}

// bindValue binds a value. Text and blobs are valid until the connection's release.
func (s *stmt) bindValue(i int, v *value) error {
	var rc int32
	switch v.kind {
	case lib.SQLITE_NULL, 0:
		rc = lib.Xsqlite3_bind_null(s.c.tls, s.p, int32(i))
	case lib.SQLITE_INTEGER:
		rc = lib.Xsqlite3_bind_int64(s.c.tls, s.p, int32(i), v.int)
	case lib.SQLITE_FLOAT:
		rc = lib.Xsqlite3_bind_double(s.c.tls, s.p, int32(i), v.real())
	case lib.SQLITE_BLOB:
		rc = lib.Xsqlite3_bind_blob(s.c.tls, s.p, int32(i), uintptr(s.c.bound.hold(v.text)), int32(len(v.text)), lib.SQLITE_STATIC)
	default:
		rc = lib.Xsqlite3_bind_text(s.c.tls, s.p, int32(i), uintptr(s.c.bound.hold(v.text)), int32(len(v.text)), lib.SQLITE_STATIC)
	}
	return s.c.check(rc)
}

// bindValues binds values from the first parameter on.
func (s *stmt) bindValues(values []value) error {
	for i := range values {
		if err := s.bindValue(i+1, &values[i]); err != nil {
			return err
		}
	}
	return nil
}

// spelling returns a column as text, valid until the next step. SQLite's own text for a double has only 15 digits.
func (s *stmt) spelling(col int) []byte {
	if s.kind(col) == lib.SQLITE_FLOAT {
		return feed.AppendReal(nil, s.real(col))
	}
	return s.bytes(col)
}

// spelling returns a value as text; nil for NULL and for no value.
func (v *value) spelling() []byte {
	switch v.kind {
	case lib.SQLITE_NULL, 0:
		return nil
	case lib.SQLITE_INTEGER:
		return strconv.AppendInt(nil, v.int, 10)
	case lib.SQLITE_FLOAT:
		return feed.AppendReal(nil, v.real())
	}
	return v.text
}

// value returns a column's value in the statement's row.
func (s *stmt) value(col int) value {
	v := value{kind: s.kind(col)}
	switch v.kind {
	case lib.SQLITE_INTEGER:
		v.int = s.int(col)
	case lib.SQLITE_FLOAT:
		return realValue(s.real(col))
	case lib.SQLITE_TEXT:
		v.text = bytes.Clone(s.bytes(col))
	case lib.SQLITE_BLOB:
		v.text = bytes.Clone(s.blob(col))
	}
	return v
}

// holds reports whether a column of the statement's row already has the value, as the column, which has type t, would
// store it.
func (s *stmt) holds(col int, v *value, t schema.Type) bool {
	kind := s.kind(col)
	if kind == lib.SQLITE_BLOB || v.kind == lib.SQLITE_BLOB {
		return kind == v.kind && bytes.Equal(s.blob(col), v.text)
	}
	switch {
	case kind == lib.SQLITE_NULL || v.kind == lib.SQLITE_NULL:
		return kind == v.kind
	case v.kind == lib.SQLITE_TEXT && (kind == lib.SQLITE_TEXT || t != schema.Any): // text that looks like a number may be stored as one
		return bytes.Equal(s.bytes(col), v.text)
	case kind == lib.SQLITE_TEXT || v.kind == lib.SQLITE_TEXT:
		return false
	case kind == lib.SQLITE_INTEGER && v.kind == lib.SQLITE_INTEGER:
		return s.int(col) == v.int
	case kind == lib.SQLITE_INTEGER:
		return same(s.int(col), v.real())
	case v.kind == lib.SQLITE_INTEGER:
		return same(v.int, s.real(col))
	}
	return s.real(col) == v.real() // SQLite stores no sign of a zero in a REAL column
}

// same reports whether two numbers are exactly equal.
func same(n int64, f float64) bool {
	return float64(n) == f && f < 1<<63 && int64(f) == n
}
