package sqlite

import (
	"context"
	"encoding/json"
	"time"

	"github.com/weirsync/weir/internal/sink"
)

// A stateStore reads and writes the states of a table's rows: the versions of their columns, and remembered deletes.
type stateStore struct {
	c         *conn
	ledger    sink.Ledger
	table     string // name in weir_versions
	names     string // the columns with versions, as in weir_meta
	now       value
	find, set *stmt
	memory    []byte // of the state read last
}

// openStates creates weir_versions if it is missing, and removes old deletes. columns are those with versions.
func (d *DB) openStates(ctx context.Context, table string, tombstones time.Duration) (s *stateStore, columns []string, err error) {
	c, now := d.c, time.Now().UTC()
	s = &stateStore{c: c, ledger: d.Ledger, table: lower(table), now: text(now.Format(timeFormat)), memory: []byte{}}
	if err := c.execAll(dialect.Versions()...); err != nil {
		return nil, nil, err
	}
	names, err := d.Marks(ctx, versionsMark(table))
	if s.names = names[0]; err == nil && s.names != "" {
		err = json.Unmarshal([]byte(s.names), &columns)
	}
	if err != nil {
		return nil, nil, err
	}
	if err := c.exec("DELETE FROM weir_versions WHERE tbl = ? AND gone < ?", text(s.table), text(now.Add(-tombstones).Format(timeFormat))); err != nil {
		return nil, nil, err
	}
	if s.find, err = c.prepare("SELECT state FROM weir_versions WHERE tbl = ? AND key = ?"); err != nil {
		return nil, nil, err
	}
	s.set, err = c.prepare("INSERT INTO weir_versions (tbl, key, state, gone) VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET state = excluded.state, gone = excluded.gone")
	return s, columns, err
}

// read returns a row's state, or nil if it has none. It is valid until the next read.
func (s *stateStore) read(key []byte) (state []byte, err error) {
	defer s.find.reset()
	if err := s.find.bindValues([]value{text(s.table), blob(key)}); err != nil {
		return nil, err
	}
	if found, err := s.find.step(); err != nil || !found {
		return nil, err
	}
	s.memory = append(s.memory[:0], s.find.blob(0)...)
	return s.memory, nil
}

// put writes a row's state; gone is when the row was deleted, or null if it exists.
func (s *stateStore) put(key, state []byte, gone value) error {
	return s.set.runWith(text(s.table), blob(key), blob(state), gone)
}

// keepNames stores the names of the columns that have versions.
func (s *stateStore) keepNames(ctx context.Context, columns []string) error {
	names, err := json.Marshal(columns)
	if err != nil || string(names) == s.names {
		return err
	}
	return s.ledger.SetMark(ctx, sink.VersionsMark(s.table), string(names))
}

func versionsMark(table string) string { return sink.VersionsMark(lower(table)) }
