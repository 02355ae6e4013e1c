package sqlite

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	lib "modernc.org/sqlite/lib"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
)

// Expire implements [sink.Sink]. Rows are looked for before the transaction begins, so that a
// step that finds none keeps no other writer waiting.
func (d *DB) Expire(ctx context.Context, e *sink.Expiry) (sink.Expired, error) {
	if err := d.usable(ctx); err != nil {
		return sink.Expired{}, err
	}
	res, err := d.expire(ctx, e)
	d.turn.released = time.Now()
	err = d.explain(err)
	if failed := (*sink.Error)(nil); errors.As(err, &failed) && failed.Class == sink.Unknown {
		d.disconnect() // as after a flush
	}
	if err != nil {
		return sink.Expired{}, err
	}
	d.trim()
	return res, nil
}

func (d *DB) expire(ctx context.Context, e *sink.Expiry) (res sink.Expired, err error) {
	x := &expiry{DB: d, Expiry: e}
	err = d.polling(ctx, func() (err error) { x.t, err = d.readTable(ctx, e.Table, e.Key); return err })
	columns, res, err := e.Begin(&caps.Limits, &x.t.Table, err)
	if err != nil || res.Done {
		return res, err
	}
	slices.Sort(x.t.Key) // as most indexes over keys have them
	var rows []key
	var after []string
	if err := d.polling(ctx, func() (err error) { rows, after, err = x.find(columns); return err }); err != nil {
		return res, err
	}
	done := 0
	if len(rows) > 0 {
		if err := x.polling(ctx, func() error { return x.readBelow(ctx) }); err != nil {
			return res, err
		}
		if done, err = x.remove(ctx, rows, &res); err != nil {
			return sink.Expired{}, err
		}
	}
	if done < len(rows) {
		after = formatKey(rows[done-1])
	}
	if x.indexed {
		e.Found(len(rows), &res)
		res.Done = res.Done && done == len(rows)
	} else {
		e.Walked(after, &res)
	}
	return res, nil
}

// An expiry is a step of one.
type expiry struct {
	*DB
	*sink.Expiry
	t       *table
	old     string // the condition that a row is old; ?1 is the time
	indexed bool   // an index finds the rows that may be old
	// tables are those whose rows are removed: those below, by their numbers, and x.t.
	tables []*expiring
}

// A key has a value for each of the key's columns.
type key []value

// find returns rows that are old, and the last one that was looked at, if others follow.
func (x *expiry) find(columns []*schema.Column) (rows []key, after []string, err error) {
	var indexed []string
	err = x.c.query("SELECT i.name FROM pragma_index_list(?) l, pragma_index_info(l.name) i WHERE i.seqno = 0 AND l.partial = 0 AND i.name IS NOT NULL",
		func(s *stmt) error { indexed = append(indexed, s.text(0)); return nil }, x.t.Name)
	if err != nil {
		return nil, nil, err
	}
	var conditions []string
	for _, c := range columns {
		// What is no text is no time that weir wrote.
		conditions = append(conditions, fmt.Sprintf("(%[1]s IS NULL OR typeof(%[1]s) = 'text' AND %[1]s < ?1)", quote(c.Name)))
	}
	x.old = strings.Join(conditions, " AND ")
	lead := x.Lead(columns, indexed)
	if x.indexed = lead >= 0; x.indexed {
		return x.findOld(quote(columns[lead].Name))
	}
	return x.walk()
}

// names are the key's columns in SQL, as the index over them sorts them.
func (x *expiry) names() []string {
	names := make([]string, len(x.t.Key))
	for i, k := range x.t.Key {
		c := &x.t.Columns[k]
		if names[i] = quote(c.Name); c.Collation != "" {
			names[i] += " COLLATE " + c.Collation
		}
	}
	return names
}

// take returns the key that a statement's row begins with.
func (x *expiry) take(s *stmt) key {
	k := make(key, len(x.t.Key))
	for i := range k {
		k[i] = s.value(i)
	}
	return k
}

// findOld is find by an index of a column.
func (x *expiry) findOld(lead string) (rows []key, _ []string, err error) {
	where := " FROM " + quote(x.t.Name) + " WHERE " + x.old + " AND " + lead
	keys := "SELECT " + strings.Join(x.names(), ", ")
	err = x.c.query(keys+where+" >= '' AND "+lead+" < ?1 UNION ALL "+keys+where+" IS NULL LIMIT "+strconv.Itoa(sink.ExpireRows),
		func(s *stmt) error { rows = append(rows, x.take(s)); return nil }, x.before())
	return rows, nil, err
}

func (x *expiry) before() string { return x.Before.UTC().Format(stampFormat) }

// walk is find in the order of the key.
func (x *expiry) walk() (rows []key, after []string, err error) {
	names := x.names()
	list := strings.Join(names, ", ")
	where := " WHERE " + strings.Join(names, " IS NOT NULL AND ") + " IS NOT NULL"
	args := []any{x.before()}
	if len(x.After) > 0 {
		var marks []string
		for i, text := range x.After {
			v, err := parseKey(text)
			if err != nil {
				return nil, nil, err
			}
			args, marks = append(args, v), append(marks, "?"+strconv.Itoa(i+2))
		}
		where += " AND (" + list + ") > (" + strings.Join(marks, ", ") + ")"
	}
	looked := 0
	err = x.c.query(fmt.Sprintf("SELECT %s, %s FROM %s%s ORDER BY %s LIMIT %d", list, x.old, quote(x.t.Name), where, list, sink.ExpireWindow), func(s *stmt) error {
		if len(rows) == sink.ExpireRows {
			return nil
		}
		if looked++; s.int(len(names)) != 0 {
			rows = append(rows, x.take(s))
		}
		if looked == sink.ExpireWindow || len(rows) == sink.ExpireRows {
			after = formatKey(x.take(s))
		}
		return nil
	}, args...)
	return rows, after, err
}

// formatKey is a key as [sink.Expiry] has it: a letter for the kind of each value, and that.
func formatKey(k key) []string {
	texts := make([]string, len(k))
	for i, v := range k {
		switch v.kind {
		case lib.SQLITE_INTEGER:
			texts[i] = "i" + strconv.FormatInt(v.int, 10)
		case lib.SQLITE_FLOAT:
			texts[i] = "r" + strconv.FormatFloat(v.real(), 'g', -1, 64)
		case lib.SQLITE_BLOB:
			texts[i] = "b" + string(v.text)
		default:
			texts[i] = "t" + string(v.text)
		}
	}
	return texts
}

// parseKey returns what bind takes for a value of formatKey's.
func parseKey(text string) (any, error) {
	switch kind, rest := text[0], text[1:]; kind {
	case 'i':
		return strconv.ParseInt(rest, 10, 64)
	case 'r':
		return strconv.ParseFloat(rest, 64)
	case 'b':
		return blob(rest), nil
	default:
		return rest, nil
	}
}

// remove deletes those of the rows that still are old, up to one after which the step has taken its time, and returns
// how many it has come through.
func (x *expiry) remove(ctx context.Context, rows []key, res *sink.Expired) (done int, err error) {
	if err := x.polling(ctx, func() error { return x.c.exec("BEGIN IMMEDIATE") }); err != nil {
		return 0, err
	}
	x.wrote = true
	for begun := time.Now(); done < len(rows) && (done == 0 || time.Since(begun) < sink.ExpireTime); done++ {
		if err = x.removeRow(rows[done], res); err != nil {
			break
		}
	}
	if err == nil {
		err = x.commit()
	}
	if !x.c.autocommit() {
		err = errors.Join(err, x.c.exec("ROLLBACK"))
	}
	return done, err
}

// removeRow deletes a row and those below it, unless the database does not let one of them go.
func (x *expiry) removeRow(k key, res *sink.Expired) error {
	if err := x.c.do("SAVEPOINT weir"); err != nil {
		return err
	}
	gone, err := x.delete(k)
	if err == nil && x.c.deferredKeys() {
		err = &Error{Code: lib.SQLITE_CONSTRAINT_FOREIGNKEY, Msg: "FOREIGN KEY constraint failed"}
	}
	switch {
	case isRefusal(err) && !x.c.autocommit():
		res.Kept, res.Why = res.Kept+1, err.Error()
		if err := x.c.do("ROLLBACK TO weir"); err != nil {
			return err
		}
	case err != nil:
		return err
	default:
		last := len(x.tables) - 1
		res.Removed += gone[last]
		for i, rows := range gone[:last] {
			x.With(res, i, rows)
		}
	}
	return x.c.do("RELEASE weir")
}

// delete deletes a row that is old and those below it, and counts them by table.
func (x *expiry) delete(k key) (gone []int64, err error) {
	defer x.c.release()
	gone = make([]int64, len(x.tables))
	for i := len(x.tables) - 2; i >= 0; i-- { // children before parents
		if gone[i], err = x.deleteFrom(x.tables[i], k); err != nil {
			return nil, err
		}
	}
	last := len(x.tables) - 1
	gone[last], err = x.deleteFrom(x.tables[last], k)
	return gone, err
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

// folded is the key as the fold has it.
func (k key) folded(t *schema.Table) []byte {
	values := make([][]byte, len(k))
	for i := range k {
		values[i] = k[i].json()
		if c := &t.Columns[t.Key[i]]; k[i].kind == lib.SQLITE_BLOB && c.Type != schema.Bytes {
			bytes := t.Clone()
			bytes.Columns[t.Key[i]].Type = schema.Bytes
			t = &bytes
		}
	}
	return fold.AppendKey(nil, t, values)
}

// json is a value of the database's as a feed has it.
func (v *value) json() []byte {
	switch v.kind {
	case lib.SQLITE_INTEGER:
		return strconv.AppendInt(nil, v.int, 10)
	case lib.SQLITE_FLOAT:
		return feed.AppendReal(nil, v.real())
	case lib.SQLITE_BLOB:
		return append(hex.AppendEncode([]byte(`"\\x`), v.text), '"')
	}
	text, _ := json.Marshal(string(v.text)) // a string
	return text
}
