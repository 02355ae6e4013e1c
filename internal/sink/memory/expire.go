package memory

import (
	"context"
	"maps"
	"slices"

	"github.com/weirsync/weir/internal/sink"
)

// Expire implements [sink.Sink].
func (c *conn) Expire(_ context.Context, e *sink.Expiry) (res sink.Expired, err error) {
	err = c.db.change(func(s *state) error {
		known := s.tables[e.Table]
		if _, err := s.table(e.Table, e.Key); err != nil || known == nil { // it is missing, or has another key
			res.Done = true
			return nil
		}
		columns, missing, err := e.Columns(&caps.Limits, &known.Table)
		if err != nil || missing != "" {
			res.Done, res.Missing = true, missing
			return err
		}
		t := *known
		t.rows, t.versions = maps.Clone(t.rows), maps.Clone(t.versions)
		before := e.Before.UTC().Format(stampFormat)
		for _, key := range slices.Sorted(maps.Keys(t.rows)) {
			old := true
			for _, c := range columns {
				old = old && t.rows[key][c.Name] < before // "" for NULL
			}
			if old && res.Removed < sink.ExpireRows {
				delete(t.rows, key)
				delete(t.versions, key)
				res.Removed++
			}
		}
		s.tables[e.Table], res.Done = &t, res.Removed < sink.ExpireRows
		return nil
	})
	return res, err
}
