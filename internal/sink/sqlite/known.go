package sqlite

import "hash/maphash"

// This file is about states that are certainly missing, and so are not looked up: those of a table that had none when
// this connection first wrote it, of keys that it has not written since, while nobody else has written the file. To look them up took a
// tenth of the CPU of a first load with versions; BenchmarkFlush/sqlite/insert/versions would show the loss.

const (
	// knownWords is the size of the filter, 2 MiB, and maxKnown is how many keys it takes: with 16 bits for each, fewer than
	// one in a hundred is looked up in vain.
	knownWords = 1 << 18
	maxKnown   = knownWords * 64 / 16
)

// knownStates is a Bloom filter of the keys that may have a state, of those tables of which it has all.
type knownStates struct {
	words  []uint64 // a key has its bits in one of them
	tables map[string]maphash.Seed
	keys   int
	data   int64 // SQLite's data_version, which other connections change
}

// begin forgets what may be untrue, and returns the keys of a table. c has begun a transaction.
func (k *knownStates) begin(c *conn, table string) (*knownKeys, error) {
	var data int64
	err := c.query("PRAGMA data_version", func(s *stmt) error { data = s.int(0); return nil })
	if err != nil {
		return nil, err
	}
	if data != k.data {
		k.forget()
		k.data = data
	}
	if _, all := k.tables[table]; !all {
		all = true
		err := c.query("SELECT 1 FROM weir_versions WHERE tbl = ? LIMIT 1", func(*stmt) error { all = false; return nil }, table)
		if err != nil {
			return nil, err
		}
		if all {
			if k.words == nil {
				k.words, k.tables = make([]uint64, knownWords), map[string]maphash.Seed{}
			}
			k.tables[table] = maphash.MakeSeed()
		}
	}
	return &knownKeys{k, table}, nil
}

func (k *knownStates) forget() {
	clear(k.words)
	clear(k.tables)
	k.keys = 0
}

// knownKeys are those of one table.
type knownKeys struct {
	*knownStates
	table string
}

// add notes that a key is about to have a state, and reports whether it may have one already.
func (k *knownKeys) add(key []byte) (known bool) {
	seed, all := k.tables[k.table]
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
