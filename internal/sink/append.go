package sink

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"strings"

	"github.com/weirsync/weir/internal/fold/schema"
)

// Tables without a key: each message is its own row.

// KeyedError returns the error for a table that weir created with a primary key, which rows without a key may violate.
func KeyedError(t *schema.Table, primary []string) error {
	return fmt.Errorf("table %q was created with the key %s: remove key none, or recreate the table without a key with --restart rebuild", t.Name, strings.Join(primary, ","))
}

// A RowSum is a checksum of rows in any order. Within one process, two are equal if their rows are equal.
type RowSum struct {
	Rows int64
	sum  uint64 // of the rows' hashes
}

var sumSeed = maphash.MakeSeed()

// Add adds a row, given as the texts of its columns; nil is NULL. Numbers and JSON are hashed by value, because a
// widened column may spell them differently from the message.
func (s *RowSum) Add(texts [][]byte) {
	var row []byte
	for _, text := range texts {
		at := len(row)
		row = append(row, 0, 0, 0, 0, 0)
		if text == nil {
			continue
		}
		row[at] = 1
		row = schema.AppendByValue(row, text)
		binary.BigEndian.PutUint32(row[at+1:], uint32(len(row)-at))
	}
	s.Rows++
	s.sum += maphash.Bytes(sumSeed, row)
}
