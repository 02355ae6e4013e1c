package sqlite

import (
	"encoding/hex"
	"encoding/json"

	lib "modernc.org/sqlite/lib"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/schema"
)

// A key has a value for each key column, as in the database or as in messages.
type key []value

// key returns the first n columns of the statement's row.
func (s *stmt) key(n int) key {
	k := make(key, n)
	for i := range k {
		k[i] = s.value(i)
	}
	return k
}

// keys runs a query, and returns the first n columns of its rows.
func (s *stmt) keys(args []value, n int) (keys []key, err error) {
	if err := s.bindValues(args); err != nil {
		return nil, err
	}
	defer s.reset()
	for {
		more, err := s.step()
		if err != nil || !more {
			return keys, err
		}
		keys = append(keys, s.key(n))
	}
}

// folded returns the key as in the fold, or nil if no message can have it.
func (k key) folded(t *schema.Table) []byte {
	values := make([][]byte, len(k))
	for i := range k {
		if k[i].kind == lib.SQLITE_NULL {
			return nil
		}
		values[i] = k[i].json()
		if c := &t.Columns[t.Key[i]]; k[i].kind == lib.SQLITE_BLOB && c.Type != schema.Bytes {
			bytes := t.Clone()
			bytes.Columns[t.Key[i]].Type = schema.Bytes
			t = &bytes
		}
	}
	return fold.AppendKey(nil, t, values)
}

// json returns a database value as in a feed.
func (v *value) json() []byte {
	switch v.kind {
	case lib.SQLITE_NULL:
		return []byte("null")
	case lib.SQLITE_INTEGER, lib.SQLITE_FLOAT:
		return v.spelling()
	case lib.SQLITE_BLOB:
		return append(hex.AppendEncode([]byte(`"\\x`), v.text), '"')
	}
	text, _ := json.Marshal(string(v.text)) // a string
	return text
}
