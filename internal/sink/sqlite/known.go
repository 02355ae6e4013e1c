package sqlite

import "hash/maphash"

// This file is about states and rows that are certainly missing, and so are not looked up: those of a table that had
// none when this connection first wrote it, of keys that it has not written since, while nobody else has written the
// file. To look them up took a tenth of the CPU of a first load with versions;
// BenchmarkFlush/sqlite/insert/versions would show the loss.

const (
	// knownWords is the size of the filter, 2 MiB, and maxKnown is how many keys it takes: with 16 bits for each, fewer than
	// one in a hundred is looked up in vain.
	knownWords = 1 << 18
	maxKnown   = knownWords * 64 / 16
)

// known is a Bloom filter of the keys that the database may have, of those tables of which it has all.
type known struct {
	words  []uint64                // a key has its bits in one of them
	tables map[string]maphash.Seed // by SQL that has a row if the table has any key
	keys   int
	data   int64 // SQLite's data_version, which other connections change
}

// anyState is SQL that has a row if a table has a state.
func anyState(table string) string {
	return "SELECT 1 FROM weir_versions WHERE tbl = " + literal(lower(table)) + " LIMIT 1"
}

// anyRow is SQL that has a row if a table has one, or if a trigger may give it one.
func anyRow(table string) string {
	return "SELECT 1 WHERE EXISTS (SELECT 1 FROM " + quote(table) + ") OR EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'trigger')"
}

// begin forgets what may be untrue, and returns the keys of a table. c has begun a transaction.
func (k *known) begin(c *conn, some string) (*knownKeys, error) {
	var data int64
	err := c.query("PRAGMA data_version", func(s *stmt) error { data = s.int(0); return nil })
	if err != nil {
		return nil, err
	}
	if data != k.data {
		k.forget()
		k.data = data
	}
	if _, all := k.tables[some]; !all {
		all = true
		if err := c.query(some, func(*stmt) error { all = false; return nil }); err != nil {
			return nil, err
		}
		if all {
			if k.words == nil {
				k.words, k.tables = make([]uint64, knownWords), map[string]maphash.Seed{}
			}
			k.tables[some] = maphash.MakeSeed()
		}
	}
	return &knownKeys{k, some}, nil
}

func (k *known) forget() {
	if k.keys > 0 { // where two runs take turns, this is once a flush
		clear(k.words)
	}
	clear(k.tables)
	k.keys = 0
}

// knownKeys are those of one table.
type knownKeys struct {
	*known
	some string
}

// add notes that the database is about to have a key, and reports whether it may have it already. Of no table it may.
func (k *knownKeys) add(key []byte) (known bool) {
	if k == nil {
		return true
	}
	seed, all := k.tables[k.some]
	if !all {
		return true
	}
	h := maphash.Bytes(seed, key)
	word, bits := &k.words[h%knownWords], uint64(1<<(h>>40&63)|1<<(h>>46&63)|1<<(h>>52&63)|1<<(h>>58))
	if *word&bits == bits {
		return true
	}
	*word |= bits
	if k.keys++; k.keys > maxKnown {
		k.forget()
	}
	return false
}
