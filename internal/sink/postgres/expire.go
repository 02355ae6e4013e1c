package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
)

// Expire implements [sink.Expirer].
func (d *DB) Expire(ctx context.Context, e *sink.Expiry) (sink.Expired, error) {
	if err := d.connect(ctx); err != nil {
		return sink.Expired{}, err
	}
	res, err := d.expire(ctx, e)
	if err == nil {
		return res, nil
	}
	altered := isAltered(pgError(err))
	if err = errors.Join(err, d.rollback(ctx)); altered {
		err = &sink.Error{Class: sink.Transient, Reason: "altered", Err: fmt.Errorf("a table is altered meanwhile: %w", err)}
	}
	return sink.Expired{}, d.sinkError(err)
}

// isAltered reports whether an error means that a statement does not fit a table, other than a statement of a trigger
// or a rule.
func isAltered(e *pgconn.PgError) bool { return isStale(e) && e.Where == "" }

func (d *DB) expire(ctx context.Context, e *sink.Expiry) (res sink.Expired, err error) {
	read, err := d.readRelations(ctx, e.Reads())
	if err != nil && !errors.As(err, new(sink.KeyError)) {
		return res, err
	}
	x := &expiry{DB: d, Expiry: e, read: read, t: &read[0]}
	columns, res, err := e.Begin(&caps.Limits, &x.t.Table)
	if err != nil || res.Done {
		return res, err
	}
	slices.Sort(x.t.Key) // the order in most indexes over keys
	var conditions []string
	for _, c := range columns {
		conditions = append(conditions, fmt.Sprintf("(t.%s IS NULL OR %s)", ident(c.Name), x.before(c.Name)))
	}
	x.old = strings.Join(conditions, " AND ")
	rows, after, err := x.find(ctx, columns)
	if err != nil {
		return res, err
	}
	done, err := x.remove(ctx, rows, &res)
	if err != nil {
		return res, err
	}
	sink.Advance(e, &res, len(rows), done, func(i int) []string { return rows[i].texts }, after)
	return res, nil
}

// An expiry is one step of a [sink.Expiry].
type expiry struct {
	*DB
	*sink.Expiry
	read []relation // as [sink.Expiry.Reads] lists them
	t    *relation  // the first
	old  string     // the condition that a row t is old
}

// A key is a row's key: the texts of its columns' values, and the key as in the fold.
type key struct {
	texts []string
	fold  []byte
}

// before returns the condition that a row has an old time in a column.
func (x *expiry) before(name string) string {
	return "t." + ident(name) + " < " + quote(x.Before.UTC().Format(stampFormat))
}

// columns returns SQL for the key's columns.
func (x *expiry) columns(format, separator string) string {
	parts := make([]string, len(x.t.Key))
	for i, k := range x.t.Key {
		parts[i] = fmt.Sprintf(strings.ReplaceAll(format, "{n}", strconv.Itoa(i)), x.t.compared(k))
	}
	return strings.Join(parts, separator)
}

// keyOf returns the key in a result row, which begins with the columns of keys.
func (x *expiry) keyOf(row [][]byte) key {
	n := len(x.t.Key)
	k, values := key{texts: make([]string, n)}, make([][]byte, n)
	for i := range n {
		k.texts[i], values[i] = string(row[2*i]), row[2*i+1]
	}
	k.fold = fold.AppendKey(nil, &x.t.Table, values)
	return k
}

// named returns SQL for the columns k0, k1, … of a key.
func (x *expiry) named(format string) string {
	parts := make([]string, len(x.t.Key))
	for i := range parts {
		parts[i] = strings.ReplaceAll(format, "{n}", strconv.Itoa(i))
	}
	return strings.Join(parts, ", ")
}

// find returns old rows, and the last row that a walk has scanned, if others follow.
func (x *expiry) find(ctx context.Context, columns []*schema.Column) (rows []key, after *[]string, err error) {
	r, err := x.query(ctx, "SELECT a.attname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am m ON m.oid = c.relam"+
		" JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]"+
		" WHERE i.indrelid = "+x.t.oid+" AND i.indisvalid AND i.indpred IS NULL AND m.amname = 'btree'")
	if err != nil {
		return nil, nil, err
	}
	var indexed []string
	for _, row := range r[0].rows {
		indexed = append(indexed, string(row[0]))
	}
	const keys = "k{n}::text, to_json(k{n})::text"
	sql := ""
	if lead := x.Lead(columns, indexed); lead != nil {
		old := fmt.Sprintf("(SELECT %s FROM %s t WHERE %s AND ", x.columns("%s AS k{n}", ", "), x.t.ident, x.old)
		limit := fmt.Sprintf(" LIMIT %d)", sink.ExpireRows)
		sql = fmt.Sprintf("SELECT %s, true, 0 FROM (%s%s ORDER BY t.%s%s UNION ALL %[2]st.%[4]s IS NULL%[5]s) x LIMIT %d",
			x.named(keys), old, x.before(lead.Name), ident(lead.Name), limit, sink.ExpireRows)
	} else {
		where := x.columns("%s IS NOT NULL", " AND ")
		if last, ok := x.After.([]string); ok {
			where += fmt.Sprintf(" AND (%s) > %s", x.columns("%s", ", "), x.literals(last))
		}
		sql = fmt.Sprintf("WITH weir_window AS MATERIALIZED (SELECT %s, %s AS old FROM %s t WHERE %s ORDER BY %s LIMIT %d),"+
			" weir_found AS (SELECT *, row_number() OVER (ORDER BY %s) AS n FROM weir_window) SELECT %s, old, n FROM weir_found WHERE old OR n = %d ORDER BY n LIMIT %d",
			x.columns("%s AS k{n}", ", "), x.old, x.t.ident, where, x.columns("%s", ", "), sink.ExpireWindow, x.named("k{n}"), x.named(keys), sink.ExpireWindow, sink.ExpireRows)
	}
	if r, err = x.query(ctx, "BEGIN READ ONLY", "SET LOCAL enable_seqscan = off", "SET LOCAL extra_float_digits = 1", sql, "COMMIT"); err != nil {
		return nil, nil, err
	}
	for _, row := range r[3].rows {
		k, n := x.keyOf(row), 2*len(x.t.Key)
		if string(row[n]) == "t" {
			rows = append(rows, k)
		}
		if len(rows) == sink.ExpireRows || number(row[n+1]) == sink.ExpireWindow {
			after = &k.texts
		}
	}
	return rows, after, nil
}

// literals returns a key's texts in SQL.
func (x *expiry) literals(texts []string) string {
	out := make([]string, len(texts))
	for i, text := range texts {
		out[i] = quote(text) + "::" + x.t.cols[x.t.Key[i]].staged
	}
	return "(" + strings.Join(out, ", ") + ")"
}

// remove deletes the rows that are still old, and their descendants, until the step's time is up, and returns how many
// it has handled. The database deletes all rows of a try or none: after a failure it tries fewer rows, down to one, and
// after a success more again.
func (x *expiry) remove(ctx context.Context, rows []key, res *sink.Expired) (done int, err error) {
	order := fold.KeyOrder(&x.t.Table)
	for begun, first := time.Now(), true; done < len(rows) && (first || time.Since(begun) < sink.ExpireTime); first = false {
		most := cmp.Or(x.Together, sink.ExpireRows)
		some := slices.Clone(rows[done:min(done+most, len(rows))])
		slices.SortFunc(some, func(a, b key) int { return order(a.fold, b.fold) })
		err := x.try(ctx, some, res)
		if err == nil {
			done, x.Together = done+len(some), min(2*most, sink.ExpireRows)
			continue
		}
		refused := pgError(err)
		slow := refused != nil && refused.Code == queryCanceled && len(some) > 1
		if x.conn == nil || !slow && (isAltered(refused) || !isRefusal(refused) || isTransient(refused)) {
			return done, err
		}
		if err := x.rollback(ctx); err != nil {
			return done, err
		}
		if x.Together = max(1, len(some)/2); len(some) == 1 || !x.Walk && !slow {
			res.Kept, res.Why = res.Kept+1, words(refused)
			done++
		}
		if !x.Walk && !slow {
			break
		}
	}
	return done, nil
}

// try locks the rows that are still old, in their order, and deletes them and their descendants.
func (x *expiry) try(ctx context.Context, rows []key, res *sink.Expired) error {
	tuples, numbered, tables := make([]string, len(rows)), make([]string, len(rows)), make([]*schema.Table, len(x.read))
	for n := range rows {
		tuples[n] = x.literals(rows[n].texts)
		numbered[n] = fmt.Sprintf("(%d, %s", n, tuples[n][1:])
	}
	for i := range x.read {
		tables[i] = &x.read[i].Table
	}
	aged, err := x.Aged(&sink.ExpirySQL{Limits: &caps.Limits, Tables: tables, Quote: ident, Name: func(table int) string { return x.read[table].ident },
		Column: func(table, column int) string { return x.read[table].compared(column) },
		Type:   func(table, column int) string { return x.read[table].cols[column].staged }},
		fmt.Sprintf("(%s) IN (VALUES %s) AND %s", x.columns("%s", ", "), strings.Join(tuples, ", "), x.old))
	if err != nil {
		return err
	}
	s := &script{}
	s.begin(commitLevels[x.opt.Level])
	s.add(briefly)
	locks := map[int64]bool{}
	for i, a := range aged {
		if a != nil && a.Key != nil {
			locks[x.versionsLock(&x.read[i])] = true
		}
	}
	s.lockAll(locks)
	s.add("SELECT count(*) FROM (SELECT FROM (VALUES %s) v(n, %s) JOIN %s t ON %s WHERE %s ORDER BY v.n FOR UPDATE OF t) x",
		strings.Join(numbered, ", "), x.named("k{n}"), x.t.ident, x.columns("%s = v.k{n}", " AND "), x.old)
	if len(rows) > 1 {
		s.add("SET LOCAL statement_timeout = '1s'")
	}
	first := len(s.statements)
	for i := len(aged) - 1; i >= 0; i-- { // children before parents
		sql := "SELECT WHERE false"
		if a := aged[i]; a != nil {
			answer := "1"
			if a.Key != nil {
				answer = "to_json(" + strings.Join(a.Key, ")::text, to_json(") + ")::text"
			}
			sql = fmt.Sprintf("DELETE FROM %s t WHERE %s RETURNING %s", a.Name, a.Where, answer)
		}
		s.addAll(sql)
	}
	if len(locks) == 0 {
		s.add("COMMIT")
	}
	r, err := x.run(ctx, s)
	if err != nil {
		return err
	}
	gone, drop := make([][][][]byte, len(aged)), &script{}
	for i, a := range aged {
		if gone[i] = r[first+len(aged)-1-i].rows; a != nil && a.Key != nil && len(gone[i]) > 0 {
			keys := make([]string, len(gone[i]))
			for n, row := range gone[i] {
				keys[n] = fmt.Sprintf(`'\x%x'`, fold.AppendKey(nil, &a.Keyed, row))
			}
			slices.Sort(keys)
			drop.add("DELETE FROM %s.weir_versions WHERE tbl = %s AND key IN (%s)", x.schema, literal(x.fullName(&x.read[i])), strings.Join(keys, ", "))
		}
	}
	if len(locks) > 0 {
		drop.add("COMMIT")
		if _, err := x.run(ctx, drop); err != nil {
			return err
		}
	}
	res.Removed += int64(len(gone[0]))
	for i, rows := range gone[1:] {
		x.CountBelow(res, i, int64(len(rows)))
	}
	return nil
}
