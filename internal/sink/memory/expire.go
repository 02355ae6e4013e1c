package memory

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
)

// Expire implements [sink.Expirer].
func (c *conn) Expire(_ context.Context, e *sink.Expiry) (res sink.Expired, err error) {
	err = c.db.change(func(s *state) error {
		read, err := s.table(e.Table, e.Key)
		if err != nil && !errors.As(err, new(sink.KeyError)) {
			return err
		}
		var columns []*schema.Column
		if columns, res, err = e.Begin(&caps.Limits, &read); err != nil || res.Done {
			return err
		}
		t := s.copied(e.Table)
		var gone []row
		before := e.Before.UTC().Format(stampFormat)
		for _, key := range slices.Sorted(maps.Keys(t.rows)) {
			old := true
			for _, c := range columns {
				old = old && t.rows[key][c.Name] < before // "" for NULL
			}
			if old && res.Removed < sink.ExpireRows {
				gone = append(gone, t.remove(key))
				res.Removed++
			}
		}
		res.Done = res.Removed < sink.ExpireRows
		s.expireBelow(e, gone, &res)
		return nil
	})
	return res, err
}

// expireBelow removes the descendants of removed rows.
func (s *state) expireBelow(e *sink.Expiry, gone []row, res *sink.Expired) {
	below := make([][]row, len(e.Below)) // removed rows
	for i, l := range e.Below {
		if s.tables[l.Table] == nil {
			continue
		}
		parents := gone
		if l.Above >= 0 {
			parents = below[l.Above]
		}
		t := s.copied(l.Table)
		for _, key := range slices.Sorted(maps.Keys(t.rows)) {
			if slices.ContainsFunc(parents, func(a row) bool { return t.rows[key].belongs(a, &l) }) {
				below[i] = append(below[i], t.remove(key))
			}
		}
		e.CountBelow(res, i, int64(len(below[i])))
	}
}

// belongs reports whether the row belongs to another one.
func (r row) belongs(parent row, l *schema.Lower) bool {
	for i, name := range l.Columns {
		if r[name] != parent[l.To[i]] {
			return false
		}
	}
	return true
}

// copied replaces a table by a copy, which may be changed.
func (s *state) copied(name string) *table {
	t := *s.tables[name]
	t.rows, t.versions = maps.Clone(t.rows), maps.Clone(t.versions)
	s.tables[name] = &t
	return &t
}

// remove removes a row, and its versions.
func (t *table) remove(key string) row {
	r := t.rows[key]
	delete(t.rows, key)
	delete(t.versions, key)
	return r
}
