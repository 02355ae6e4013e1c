package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	lib "modernc.org/sqlite/lib"

	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
)

// Expire implements [sink.Expirer]. It looks for rows before the transaction begins: a step that
// finds none keeps no other writer waiting.
func (d *DB) Expire(ctx context.Context, e *sink.Expiry) (sink.Expired, error) {
	if err := d.usable(ctx); err != nil {
		return sink.Expired{}, err
	}
	res, err := d.expire(ctx, e)
	if err != nil {
		return sink.Expired{}, d.judge(err)
	}
	d.trim()
	return res, nil
}

func (d *DB) expire(ctx context.Context, e *sink.Expiry) (res sink.Expired, err error) {
	x := &expiry{DB: d, Expiry: e}
	if err := d.polling(ctx, func() error { return x.readTables(ctx) }); err != nil {
		return res, err
	}
	x.t = x.read[0]
	columns, res, err := e.Begin(&caps.Limits, &x.t.Table)
	if err != nil || res.Done {
		return res, err
	}
	slices.Sort(x.t.Key) // as most indexes over keys have them
	var rows []key
	var after *key
	if err := d.polling(ctx, func() (err error) { rows, after, err = x.find(columns); return err }); err != nil {
		return res, err
	}
	done := 0
	if len(rows) > 0 {
		if done, err = x.remove(ctx, rows, &res); err != nil {
			return res, err
		}
	}
	sink.Advance(e, &res, len(rows), done, func(i int) key { return rows[i] }, after)
	return res, nil
}

// An expiry is a step of one.
type expiry struct {
	*DB
	*sink.Expiry
	read []*table // as [sink.Expiry.Reads] has them
	t    *table   // the first
	old  string   // the condition that a row t is old; ?1 is the time
	aged []*sink.Aged
}

// readTables reads the tables of the step.
func (x *expiry) readTables(ctx context.Context) error {
	x.read = nil
	for _, w := range x.Reads() {
		t, err := x.readTable(ctx, w.Name, w.Key)
		if errors.As(err, new(sink.KeyError)) {
			t.Exists = false // with this key
		} else if err != nil {
			return err
		}
		x.read = append(x.read, t)
	}
	return nil
}

// find returns rows that are old, and the last one that a walk in the order of the key looked at, if others follow.
func (x *expiry) find(columns []*schema.Column) (rows []key, after *key, err error) {
	var indexed []string
	err = x.c.query("SELECT i.name FROM pragma_index_list(?) l, pragma_index_info(l.name) i WHERE i.seqno = 0 AND l.partial = 0 AND i.name IS NOT NULL",
		func(s *stmt) error { indexed = append(indexed, s.text(0)); return nil }, x.t.Name)
	if err != nil {
		return nil, nil, err
	}
	var conditions []string
	for _, c := range columns {
		// What is no text is no time that weir wrote.
		conditions = append(conditions, fmt.Sprintf("(t.%[1]s IS NULL OR typeof(t.%[1]s) = 'text' AND t.%[1]s < ?1)", quote(c.Name)))
	}
	x.old = strings.Join(conditions, " AND ")
	row := func(s *stmt) key { return s.key(len(x.t.Key)) }
	names := x.names()
	list, limit := strings.Join(names, ", "), sink.ExpireWindow
	from := fmt.Sprintf("SELECT %s, %s FROM %s t WHERE ", list, x.old, quote(x.t.Name))
	if lead := x.Lead(columns, indexed); lead != nil {
		at := "t." + quote(lead.Name)
		old := from + x.old + " AND " + at
		err = x.c.query(fmt.Sprintf("%s >= '' AND %s < ?1 UNION ALL %s IS NULL LIMIT %d", old, at, old, sink.ExpireRows),
			func(s *stmt) error { rows = append(rows, row(s)); return nil }, x.before())
		return rows, nil, err
	}
	where := strings.Join(names, " IS NOT NULL AND ") + " IS NOT NULL"
	args := []any{x.before()}
	if last, ok := x.After.(key); ok {
		for _, v := range last {
			args = append(args, v)
		}
		where += " AND (" + list + ") > (?" + strings.Repeat(", ?", len(last)-1) + ")" // from ?2 on
	}
	err = x.c.query(fmt.Sprintf("%s%s ORDER BY %s LIMIT %d", from, where, list, limit), func(s *stmt) error {
		if len(rows) == sink.ExpireRows {
			return nil
		}
		if limit--; s.int(len(names)) != 0 {
			rows = append(rows, row(s))
		}
		if limit == 0 || len(rows) == sink.ExpireRows {
			last := row(s)
			after = &last
		}
		return nil
	}, args...)
	return rows, after, err
}

// column is a column of a row t in SQL, as the index over a key sorts it.
func (x *expiry) column(table, at int) string {
	c := &x.read[table].Columns[at]
	sql := "t." + quote(c.Name)
	if name := collationOf(c); name != "" {
		sql += " COLLATE " + name
	}
	return sql
}

// names are the key's columns in SQL.
func (x *expiry) names() []string {
	names := make([]string, len(x.t.Key))
	for i, k := range x.t.Key {
		names[i] = x.column(0, k)
	}
	return names
}

func (x *expiry) before() string { return x.Before.UTC().Format(stampFormat) }

// remove deletes those of the rows that still are old, and those below them, until the step has taken its time, and returns
// how many it has come through.
func (x *expiry) remove(ctx context.Context, rows []key, res *sink.Expired) (done int, err error) {
	where := x.old
	for i, name := range x.names() {
		where += " AND " + name + " = ?" + strconv.Itoa(i+2)
	}
	tables := make([]*schema.Table, len(x.read))
	for i := range tables {
		tables[i] = &x.read[i].Table
	}
	x.aged, err = x.Aged(&sink.ExpirySQL{Limits: &caps.Limits, Tables: tables, Quote: quote, Column: x.column,
		Name: func(table int) string { return quote(tables[table].Name) }, Type: func(table, column int) string { return "" }}, where)
	if err != nil {
		return 0, err
	}
	err = x.transaction(ctx, func() error {
		for begun := time.Now(); done < len(rows) && (done == 0 || time.Since(begun) < sink.ExpireTime); done++ {
			if err := x.removeRow(rows[done], res); err != nil {
				return err
			}
		}
		return nil
	})
	return done, err
}

// removeRow deletes a row that is old and those below it, unless the database does not let one of them go.
func (x *expiry) removeRow(k key, res *sink.Expired) error {
	x.c.bound.release()
	gone := make([]int64, len(x.aged))
	err := x.c.undone(func() (err error) {
		for i := len(gone) - 1; i >= 0; i-- { // children before parents
			if gone[i], err = x.delete(i, k); err != nil {
				return err
			}
		}
		if x.c.deferredKeys() {
			return &Error{Code: lib.SQLITE_CONSTRAINT_FOREIGNKEY, Msg: "FOREIGN KEY constraint failed"}
		}
		return nil
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

// delete deletes the rows of a table that go with the row of a key, with what is kept of their versions, and returns how
// many these are.
func (x *expiry) delete(table int, k key) (int64, error) {
	a := x.aged[table]
	if a == nil {
		return 0, nil
	}
	run := func(sql string, columns int) ([]key, error) {
		s, err := x.c.prepareOne(sql + " t WHERE " + a.Where)
		if err != nil {
			return nil, err
		}
		return s.keys(append(key{{kind: lib.SQLITE_TEXT, text: []byte(x.before())}}, k...), columns)
	}
	var versions []key
	if a.Key != nil { // of a DELETE that has an alias, RETURNING does not know it
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
		if err := x.c.exec("DELETE FROM weir_versions WHERE tbl = ? AND key = ?", lower(x.read[table].Name), blob(k.folded(&a.Keyed))); err != nil {
			return 0, err
		}
	}
	return rows, nil
}
