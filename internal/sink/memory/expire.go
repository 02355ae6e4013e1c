package memory

import (
	"context"
	"maps"
	"slices"

	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
)

// Expire implements [sink.Sink].
func (c *conn) Expire(_ context.Context, e *sink.Expiry) (res sink.Expired, err error) {
	err = c.db.change(func(s *state) error {
		read, err := s.table(e.Table, e.Key)
		var columns []*schema.Column
		if columns, res, err = e.Begin(&caps.Limits, &read, err); err != nil || res.Done {
			return err
		}
		t := *s.tables[e.Table]
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
