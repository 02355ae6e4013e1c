package sqlite

import (
	"bytes"
	"context"
	"encoding/hex"

	lib "modernc.org/sqlite/lib"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/sink"
)

// An orphan is a state whose row something other than weir may have deleted.
type orphan struct {
	key     []byte
	deletes bool // it remembers a delete
}

// dropOrphans drops states of rows that something other than weir has deleted. A state that remembers a delete becomes
// a tombstone.
func (s *stateStore) dropOrphans(ctx context.Context, l *layout) error {
	name := sink.OrphansMark(s.table)
	mark, err := s.ledger.Marks(ctx, name)
	if err != nil {
		return err
	}
	pass := sink.ReadOrphans(mark[0])
	before := 0
	for most := pass.Next(l.b.Rows(), 0); most > 0; most = pass.Next(l.b.Rows(), before) {
		if err := s.dropSome(l, &pass, most); err != nil {
			return err
		}
		before += most
	}
	if before == 0 {
		return nil
	}
	return s.ledger.SetMark(ctx, name, pass.Mark())
}

// dropSome is one scan of dropOrphans.
func (s *stateStore) dropSome(l *layout, pass *sink.Orphans, most int) error {
	var found []orphan
	scanned, last := 0, []byte(nil)
	err := s.c.query("SELECT key, state, gone IS NULL FROM weir_versions WHERE tbl = ? AND key > coalesce(?, x'') ORDER BY key LIMIT ?", func(row *stmt) error {
		scanned, last = scanned+1, bytes.Clone(row.blob(0))
		if row.int(2) != 0 {
			found = append(found, orphan{last, fold.RemembersDelete(row.blob(1))})
		}
		return nil
	}, text(s.table), blob(pass.After), integer(int64(most)))
	if err != nil {
		return err
	}
	dropped := 0
	for _, o := range found {
		if exists, err := s.c.hasRowOf(l, o.key); err != nil {
			return err
		} else if exists {
			continue
		}
		dropped++
		if o.deletes {
			err = s.c.exec("UPDATE weir_versions SET gone = ? WHERE tbl = ? AND key = ?", s.now, text(s.table), blob(o.key))
		} else {
			err = s.c.exec("DELETE FROM weir_versions WHERE tbl = ? AND key = ?", text(s.table), blob(o.key))
		}
		if err != nil {
			return err
		}
	}
	pass.Record(most, scanned, last, dropped)
	return nil
}

// spellings is how many values a key's text may stand for, depending on the column.
const spellings = 4

// hasRowOf reports whether the table may have the row of a key, as in the fold.
func (c *conn) hasRowOf(l *layout, key []byte) (exists bool, err error) {
	texts := fold.KeyTexts(&l.b.Table, key)
	if texts == nil {
		return true, nil
	}
	s, err := c.prepareVariant("SELECT 1 FROM " + quote(l.table.Name) + l.whereOf(l.finder(spellings), len(texts)))
	if err != nil {
		return false, err
	}
	defer c.bound.release()
	var values []value
	for _, text := range texts {
		values = append(values, spelled(text)...)
	}
	found, err := s.one(values)
	return found.kind != lib.SQLITE_NULL, err
}

// spelled returns the values for which [schema.Column.AppendKey] makes a text, whatever the column's type.
func spelled(text []byte) []value {
	values := make([]value, spellings)
	values[0] = value{kind: lib.SQLITE_TEXT, text: text}
	if rest, ok := bytes.CutPrefix(text, []byte("'")); ok {
		values[1] = value{kind: lib.SQLITE_TEXT, text: rest}
	}
	if _, ok := feed.IsNumber(text); ok {
		values[2] = convert(text, schema.Any)
	}
	if digits, ok := bytes.CutPrefix(text, []byte(`\x`)); ok {
		if raw, err := hex.AppendDecode([]byte{}, digits); err == nil {
			values[3] = value{kind: lib.SQLITE_BLOB, text: raw}
		}
	}
	return values
}
