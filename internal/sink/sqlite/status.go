package sqlite

import (
	"context"
	"encoding/json"
)

// Sample implements [sink.Inspector].
func (d *DB) Sample(_ context.Context, table string, n int) (rows []string, total int64, err error) {
	count, err := d.c.scalar("SELECT count(*) FROM " + quote(table))
	if err != nil {
		return nil, 0, d.explain(err)
	}
	err = d.c.query("SELECT * FROM "+quote(table)+" LIMIT ?", func(s *stmt) error {
		row, before := []byte(nil), byte('{')
		for i := range s.columns() {
			name, _ := json.Marshal(s.name(i)) // a string
			v := s.value(i)
			row, before = append(append(append(append(row, before), name...), ':'), v.json()...), ','
		}
		rows = append(rows, string(append(row, '}')))
		return nil
	}, integer(int64(n)))
	return rows, count.int, d.explain(err)
}
