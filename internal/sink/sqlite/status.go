package sqlite

import (
	"context"
	"encoding/json"
	"strings"

	lib "modernc.org/sqlite/lib"
)

// Sample implements [sink.Inspector].
func (d *DB) Sample(_ context.Context, table string, n int) (rows []string, total int64, err error) {
	count, err := d.c.scalar("SELECT count(*) FROM " + quote(table))
	if err != nil {
		return nil, 0, d.explain(err)
	}
	err = d.c.query("SELECT * FROM "+quote(table)+" LIMIT ?", func(s *stmt) error {
		var b strings.Builder
		for i := range s.columns() {
			var v any
			switch s.kind(i) {
			case lib.SQLITE_NULL: // v is already null
			case lib.SQLITE_INTEGER:
				v = s.int(i)
			case lib.SQLITE_FLOAT:
				v = s.real(i)
			default:
				v = s.text(i)
			}
			value, err := json.Marshal(map[string]any{s.name(i): v})
			if err != nil {
				return err
			}
			b.WriteString([]string{"{", ","}[min(b.Len(), 1)])
			b.Write(value[1 : len(value)-1])
		}
		rows = append(rows, b.String()+"}")
		return nil
	}, integer(int64(n)))
	return rows, count.int, d.explain(err)
}
