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

// find returns rows that are old, and the last one that a walk looked at, if others follow.
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
	if lead := x.Lead(columns, indexed); lead != nil {
		old := "SELECT " + strings.Join(x.names(), ", ") + " FROM " + quote(x.t.Name) + " t WHERE " + x.old + " AND t." + quote(lead.Name)
		err = x.c.query(old+" >= '' AND t."+quote(lead.Name)+" < ?1 UNION ALL "+old+" IS NULL LIMIT "+strconv.Itoa(sink.ExpireRows),
			func(s *stmt) error { rows = append(rows, s.key(len(x.t.Key))); return nil }, x.before())
		return rows, nil, err
	}
	return x.walk()
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

// walk is find in the order of the key.
func (x *expiry) walk() (rows []key, after *key, err error) {
	names := x.names()
	list := strings.Join(names, ", ")
	where := strings.Join(names, " IS NOT NULL AND ") + " IS NOT NULL"
	args := []any{x.before()}
	if last, ok := x.After.(key); ok {
		marks := make([]string, len(last))
		for i := range last {
			args, marks[i] = append(args, &last[i]), "?"+strconv.Itoa(i+2)
		}
		where += " AND (" + list + ") > (" + strings.Join(marks, ", ") + ")"
	}
	looked := 0
	err = x.c.query(fmt.Sprintf("SELECT %s, %s FROM %s t WHERE %s ORDER BY %s LIMIT %d", list, x.old, quote(x.t.Name), where, list, sink.ExpireWindow), func(s *stmt) error {
		if len(rows) == sink.ExpireRows {
			return nil
		}
		if looked++; s.int(len(names)) != 0 {
			rows = append(rows, s.key(len(x.t.Key)))
		}
		if looked == sink.ExpireWindow || len(rows) == sink.ExpireRows {
			last := s.key(len(x.t.Key))
			after = &last
		}
		return nil
	}, args...)
	return rows, after, err
}

// remove deletes those of the rows that still are old, up to one after which the step has taken its time, and returns
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

// removeRow deletes a row and those below it, unless the database does not let one of them go.
func (x *expiry) removeRow(k key, res *sink.Expired) error {
	var gone []int64
	err := x.c.undone(func() (err error) {
		if gone, err = x.delete(k); err == nil && x.c.deferredKeys() {
			err = &Error{Code: lib.SQLITE_CONSTRAINT_FOREIGNKEY, Msg: "FOREIGN KEY constraint failed"}
		}
		return err
	})
	switch {
	case isRefusal(err) && !x.c.autocommit():
		res.Kept, res.Why = res.Kept+1, err.Error()
	case err != nil:
		return err
	default:
		res.Removed += gone[0]
		for i, rows := range gone[1:] {
			x.CountBelow(res, i, rows)
		}
	}
	return nil
}

// delete deletes a row that is old and those below it, with what is kept of their versions, and counts them by table.
func (x *expiry) delete(k key) (gone []int64, err error) {
	defer x.c.bound.release()
	gone = make([]int64, len(x.aged))
	for i := len(x.aged) - 1; i >= 0; i-- { // children before parents
		a := x.aged[i]
		if a == nil {
			continue
		}
		versions, err := x.foldKeys(a, k)
		if err != nil {
			return nil, err
		}
		s, err := x.bound("DELETE FROM "+a.Name+" AS t WHERE "+a.Where, k)
		if err == nil {
			err = s.run()
		}
		if err != nil {
			return nil, err
		}
		gone[i] = int64(x.c.changes())
		for _, key := range versions {
			s, err := x.c.prepareOne("DELETE FROM weir_versions WHERE tbl = ? AND key = ?")
			if err == nil {
				err = s.runWith(lower(x.read[i].Name), blob(key))
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return gone, nil
}

// foldKeys returns the keys, as the fold has them, of the rows of a table that go with that of a key, if versions of them
// are kept.
func (x *expiry) foldKeys(a *sink.Aged, k key) (keys [][]byte, err error) {
	if a.Key == nil {
		return nil, nil
	}
	s, err := x.bound("SELECT "+strings.Join(a.Key, ", ")+" FROM "+a.Name+" t WHERE "+a.Where, k)
	if err != nil {
		return nil, err
	}
	found, err := s.restKeys(len(a.Key))
	for _, k := range found {
		keys = append(keys, k.folded(&a.Keyed))
	}
	return keys, err
}

// bound prepares a statement with the time as ?1 and a key from ?2 on.
func (x *expiry) bound(sql string, k key) (*stmt, error) {
	s, err := x.c.prepareOne(sql)
	if err != nil {
		return nil, err
	}
	err = s.bind(1, x.before())
	for i := range k {
		err = errors.Join(err, s.bindValue(i+2, &k[i]))
	}
	return s, err
}
