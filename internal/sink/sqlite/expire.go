package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
)

// Expire implements [sink.Expirer]. It looks for rows before the transaction begins, so a step that finds none does not
// block other writers.
func (d *DB) Expire(ctx context.Context, e *sink.Expiry) (res sink.Expired, err error) {
	if err := d.usable(ctx); err != nil {
		return res, err
	}
	x := &expiry{DB: d, Expiry: e, before: e.Before.UTC().Format(stampFormat)}
	done := 0
	if err = d.polling(ctx, func() error { res, err = x.find(ctx); return err }); err == nil && len(x.found) > 0 {
		done, err = x.remove(ctx, &res)
	}
	if err != nil {
		return sink.Expired{}, d.judge(err)
	}
	if !res.Done {
		sink.Advance(e, &res, len(x.found), done, func(i int) key { return x.found[i] }, x.after)
	}
	d.trim()
	return res, nil
}

// An expiry is one step of a [sink.Expiry].
type expiry struct {
	*DB
	*sink.Expiry
	before string          // [sink.Expiry.Before], in the format of stamps
	tables []*schema.Table // as [sink.Expiry.Reads] lists them
	names  []string        // SQL for the key columns of a row t
	old    string          // the condition that a row t is old; ?1 is the time
	found  []key           // old rows
	after  *key            // the last row that a walk in key order has scanned, if others follow
	aged   []*sink.Aged
}

// find reads the tables, and finds old rows. res is Done if there can be none.
func (x *expiry) find(ctx context.Context) (res sink.Expired, err error) {
	x.tables, x.names, x.found, x.after = nil, nil, nil, nil
	for _, w := range x.Reads() {
		t, err := x.readTable(ctx, w.Name, w.Key)
		if errors.As(err, new(sink.KeyError)) {
			t.Exists = false // not with this key
		} else if err != nil {
			return res, err
		}
		x.tables = append(x.tables, &t.Table)
	}
	t := x.tables[0]
	columns, res, err := x.Begin(&caps.Limits, t)
	if err != nil || res.Done {
		return res, err
	}
	conditions := make([]string, len(columns))
	for i, c := range columns {
		// A value that is not text is no time that weir wrote.
		conditions[i] = fmt.Sprintf("(t.%[1]s IS NULL OR typeof(t.%[1]s) = 'text' AND t.%[1]s < ?1)", quote(c.Name))
	}
	x.old = strings.Join(conditions, " AND ")
	slices.Sort(t.Key) // the order in most indexes over keys
	for _, k := range t.Key {
		x.names = append(x.names, x.column(0, k))
	}
	var indexed []string
	err = x.c.query("SELECT i.name FROM pragma_index_list(?) l, pragma_index_info(l.name) i WHERE i.seqno = 0 AND l.partial = 0 AND i.name IS NOT NULL",
		func(s *stmt) error { indexed = append(indexed, s.text(0)); return nil }, text(t.Name))
	if err != nil {
		return res, err
	}
	list, args := strings.Join(x.names, ", "), key{text(x.before)}
	sql := fmt.Sprintf("SELECT %s, %s FROM %s t WHERE ", list, x.old, quote(t.Name))
	if lead := x.Lead(columns, indexed); lead != nil {
		at, each := "t."+quote(lead.Name), sql+x.old
		sql = fmt.Sprintf("%s AND %s >= '' AND %[2]s < ?1 UNION ALL %[1]s AND %[2]s IS NULL LIMIT %d", each, at, sink.ExpireRows)
	} else {
		sql += strings.Join(x.names, " IS NOT NULL AND ") + " IS NOT NULL"
		if last, ok := x.After.(key); ok {
			args = append(args, last...)
			sql += " AND (" + list + ") > (?" + strings.Repeat(", ?", len(last)-1) + ")" // from ?2 on
		}
		sql += fmt.Sprintf(" ORDER BY %s LIMIT %d", list, sink.ExpireWindow)
	}
	scanned := 0
	err = x.c.query(sql, func(s *stmt) error {
		if len(x.found) == sink.ExpireRows {
			return nil
		}
		row := s.key(len(x.names))
		if scanned++; s.int(len(x.names)) != 0 {
			x.found = append(x.found, row)
		}
		if scanned == sink.ExpireWindow || len(x.found) == sink.ExpireRows {
			x.after = &row
		}
		return nil
	}, args...)
	return res, err
}

// column returns SQL for a column of a row t, as the key's index sorts it.
func (x *expiry) column(table, at int) string {
	c := &x.tables[table].Columns[at]
	sql := "t." + quote(c.Name)
	if name := collationOf(c); name != "" {
		sql += " COLLATE " + name
	}
	return sql
}

// remove deletes the found rows that are still old, and their descendants, until the step's time is up. It returns how
// many it has handled.
func (x *expiry) remove(ctx context.Context, res *sink.Expired) (done int, err error) {
	where := x.old
	for i, name := range x.names {
		where += " AND " + name + " = ?" + strconv.Itoa(i+2)
	}
	x.aged, err = x.Aged(&sink.ExpirySQL{Limits: &caps.Limits, Tables: x.tables, Quote: quote, Column: x.column,
		Name: func(table int) string { return quote(x.tables[table].Name) }, Type: func(table, column int) string { return "" }}, where)
	if err != nil {
		return 0, err
	}
	err = x.transaction(ctx, func() error {
		for begun := time.Now(); done < len(x.found) && (done == 0 || time.Since(begun) < sink.ExpireTime); done++ {
			if err := x.removeRow(x.found[done], res); err != nil {
				return err
			}
		}
		return nil
	})
	return done, err
}

// removeRow deletes an old row and its descendants, unless the database refuses to delete one of them.
func (x *expiry) removeRow(k key, res *sink.Expired) error {
	x.c.bound.release()
	gone := make([]int64, len(x.aged))
	err := x.c.undoOnError(func() (err error) {
		for i := len(gone) - 1; i >= 0; i-- { // children before parents
			if gone[i], err = x.delete(i, k); err != nil {
				return err
			}
		}
		return x.c.checkDeferred()
	})
	switch {
	case isRefusal(err) && !x.c.autocommit():
		res.Kept, res.Why = res.Kept+1, err.Error()
		return nil
	case err != nil:
		return err
	}
	res.Removed += gone[0]
	for i, rows := range gone[1:] {
		x.CountBelow(res, i, rows)
	}
	return nil
}

// delete deletes the rows of a table that are removed with the row of a key, and their versions. It returns the number
// of rows.
func (x *expiry) delete(table int, k key) (int64, error) {
	a := x.aged[table]
	if a == nil {
		return 0, nil
	}
	run := func(sql string, columns int) ([]key, error) {
		s, err := x.c.prepareVariant(sql + " t WHERE " + a.Where)
		if err != nil {
			return nil, err
		}
		return s.keys(append(key{text(x.before)}, k...), columns)
	}
	var versions []key
	if a.Key != nil { // RETURNING does not know the alias of a DELETE
		var err error
		if versions, err = run("SELECT "+strings.Join(a.Key, ", ")+" FROM "+a.Name, len(a.Key)); err != nil {
			return 0, err
		}
	}
	if _, err := run("DELETE FROM "+a.Name+" AS", 0); err != nil {
		return 0, err
	}
	rows := int64(x.c.changes())
	for _, k := range versions {
		if err := x.c.exec("DELETE FROM weir_versions WHERE tbl = ? AND key = ?", text(lower(x.tables[table].Name)), blob(k.folded(&a.Keyed))); err != nil {
			return 0, err
		}
	}
	return rows, nil
}
