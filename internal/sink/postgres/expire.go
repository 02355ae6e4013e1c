package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink"
)

// Expire implements [sink.Sink].
func (d *DB) Expire(ctx context.Context, e *sink.Expiry) (sink.Expired, error) {
	if err := d.connect(ctx); err != nil {
		return sink.Expired{}, err
	}
	res, err := d.undone(ctx, e, false)
	if isAltered(pgError(err)) && d.conn != nil { // a table below, since it was read
		if res, err = d.undone(ctx, e, true); isAltered(pgError(err)) {
			err = &sink.Error{Class: sink.Transient, Reason: "altered", Err: fmt.Errorf("a table is altered meanwhile: %w", err)}
		}
	}
	if err != nil {
		return sink.Expired{}, d.explain(err)
	}
	return res, nil
}

// undone is expire, and rolls back what fails.
func (d *DB) undone(ctx context.Context, e *sink.Expiry, fresh bool) (sink.Expired, error) {
	res, err := d.expire(ctx, e, fresh)
	if err != nil && d.conn != nil {
		err = errors.Join(err, d.rollback(ctx))
	}
	return res, err
}

// isAltered reports whether an error says that a statement does not fit a table, and not what a trigger's or a
// rule's does.
func isAltered(e *pgconn.PgError) bool { return isStale(e) && e.Where == "" }

// expire makes a step; fresh has the tables below read again.
func (d *DB) expire(ctx context.Context, e *sink.Expiry, fresh bool) (res sink.Expired, err error) {
	x := &expiry{DB: d, Expiry: e, fresh: fresh}
	read, err := d.readRelations(ctx, []sink.TableKey{{Name: e.Table, Key: e.Key}})
	x.t = read[0]
	columns, res, err := e.Begin(&caps.Limits, &x.t.Table, err)
	if err != nil || res.Done {
		return res, err
	}
	slices.Sort(x.t.Key) // as most indexes over keys have them
	indexed, err := x.readTables(ctx)
	if err != nil {
		return res, err
	}
	var conditions []string
	for _, c := range columns {
		conditions = append(conditions, fmt.Sprintf("(t.%s IS NULL OR %s)", ident(c.Name), x.before(c.Name)))
	}
	x.old = strings.Join(conditions, " AND ")
	if err := x.tie(ctx); err != nil {
		return res, err
	}
	at := e.Lead(columns, indexed)
	if x.indexed = at >= 0; x.indexed {
		err = x.findOld(ctx, columns[at].Name)
	} else {
		err = x.walk(ctx)
	}
	if err != nil {
		return res, err
	}
	done, err := x.remove(ctx, &res)
	switch {
	case err != nil:
		return sink.Expired{}, err
	case x.indexed:
		e.Found(len(x.rows), &res)
	case done < len(x.rows):
		e.Walked(x.rows[done-1].texts, &res)
	default:
		e.Walked(x.after, &res)
	}
	return res, nil
}

// An expiry is a step of one.
type expiry struct {
	*DB
	*sink.Expiry
	t   relation
	old string // the condition that a row t is old

	// tables are those whose rows are removed: those below, by their numbers, and t.
	tables []*expiring

	fresh   bool // tables below are read again
	indexed bool // an index finds the rows

	rows  []key    // that are old
	after []string // the last row that was looked at; nil where none follows
}

// A key is that of a row: the texts of its columns' values, and as the fold has it.
type key struct {
	texts []string
	fold  []byte
}

// before is the condition that a row has an old time in a column.
func (x *expiry) before(name string) string {
	return "t." + ident(name) + " < " + quote(x.Before.UTC().Format(stampFormat))
}

// columns are SQL for each of the key's columns.
func (x *expiry) columns(format, separator string) string {
	parts := make([]string, len(x.t.Key))
	for i, k := range x.t.Key {
		parts[i] = fmt.Sprintf(strings.ReplaceAll(format, "{n}", strconv.Itoa(i)), x.t.compared(k))
	}
	return strings.Join(parts, separator)
}

// take reads the rows of an answer, which begin with what keys asks for.
func (x *expiry) take(row [][]byte) key {
	n := len(x.t.Key)
	k, values := key{texts: make([]string, n)}, make([][]byte, n)
	for i := range n {
		k.texts[i], values[i] = string(row[2*i]), row[2*i+1]
	}
	k.fold = fold.AppendKey(nil, &x.t.Table, values)
	return k
}

// keys are SQL for what take reads, of the columns that columns calls k0, k1, …
const keys = "k{n}::text, to_json(k{n})::text"

// look asks for rows. Whatever the statistics say, an index serves it.
func (x *expiry) look(ctx context.Context, sql string) ([][][]byte, error) {
	r, err := x.query(ctx, "BEGIN READ ONLY", "SET LOCAL enable_seqscan = off", "SET LOCAL extra_float_digits = 1", sql, "COMMIT")
	if err != nil {
		return nil, err
	}
	return r[3].rows, nil
}

// findOld finds rows by an index of a column.
func (x *expiry) findOld(ctx context.Context, lead string) error {
	rows := fmt.Sprintf("(SELECT %s FROM %s t WHERE %s AND ", x.columns("%s AS k{n}", ", "), x.t.ident, x.old)
	limit := fmt.Sprintf(" LIMIT %d)", sink.ExpireRows)
	found, err := x.look(ctx, fmt.Sprintf("SELECT %s FROM (%s%s ORDER BY t.%s%s UNION ALL %[2]st.%[4]s IS NULL%[5]s) x LIMIT %d",
		x.named(keys), rows, x.before(lead), ident(lead), limit, sink.ExpireRows))
	for _, row := range found {
		x.rows = append(x.rows, x.take(row))
	}
	return err
}

// named is columns of what names no column of the table.
func (x *expiry) named(format string) string {
	parts := make([]string, len(x.t.Key))
	for i := range parts {
		parts[i] = strings.ReplaceAll(format, "{n}", strconv.Itoa(i))
	}
	return strings.Join(parts, ", ")
}

// walk finds rows in the order of the key.
func (x *expiry) walk(ctx context.Context) error {
	where := x.columns("%s IS NOT NULL", " AND ")
	if len(x.After) > 0 {
		where += fmt.Sprintf(" AND (%s) > (%s)", x.columns("%s", ", "), strings.Join(x.literals(x.After), ", "))
	}
	found, err := x.look(ctx, fmt.Sprintf("WITH weir_window AS MATERIALIZED (SELECT %s, %s AS old FROM %s t WHERE %s ORDER BY %s LIMIT %d),"+
		" weir_found AS (SELECT *, row_number() OVER (ORDER BY %s) AS n FROM weir_window) SELECT %s, old, n FROM weir_found WHERE old OR n = %d ORDER BY n LIMIT %d",
		x.columns("%s AS k{n}", ", "), x.old, x.t.ident, where, x.columns("%s", ", "), sink.ExpireWindow, x.named("k{n}"), x.named(keys), sink.ExpireWindow, sink.ExpireRows))
	for _, row := range found {
		k := x.take(row)
		if string(row[2*len(x.t.Key)]) == "t" {
			x.rows = append(x.rows, k)
		}
		if len(x.rows) == sink.ExpireRows || number(row[2*len(x.t.Key)+1]) == sink.ExpireWindow {
			x.after = k.texts
		}
	}
	return err
}

// literals are a key's texts in SQL.
func (x *expiry) literals(texts []string) []string {
	out := make([]string, len(texts))
	for i, text := range texts {
		out[i] = quote(text) + "::" + x.t.cols[x.t.Key[i]].staged
	}
	return out
}

// expireTries is how often a step tries to remove rows at most, where the database does not let some go: the feed
// waits for it.
const expireTries = 20

// remove deletes those of the rows that still are old, and those below them, and returns how many it has come
// through. The database lets all rows of a try go or none: so those that an index found are left to a walk then, which
// tries fewer rows, down to one, and more again when they went.
func (x *expiry) remove(ctx context.Context, res *sink.Expired) (done int, err error) {
	order := fold.KeyOrder(&x.t.Table)
	for tries := 0; done < len(x.rows) && tries < expireTries; tries++ {
		most := cmp.Or(x.Together, sink.ExpireRows)
		rows := slices.Clone(x.rows[done:min(done+most, len(x.rows))])
		slices.SortFunc(rows, func(a, b key) int { return order(a.fold, b.fold) })
		gone, err := x.try(ctx, rows)
		if err == nil {
			x.memory.forget(0) // what is remembered may be of these rows
			last := len(gone) - 1
			res.Removed += gone[last]
			for i, n := range gone[:last] {
				x.With(res, i, n)
			}
			done, x.Together = done+len(rows), min(2*most, sink.ExpireRows)
			continue
		}
		refused := pgError(err)
		if x.conn == nil || isAltered(refused) || !isRefusal(refused) {
			return done, err
		}
		if err := x.rollback(ctx); err != nil {
			return done, err
		}
		if x.Together = max(1, len(rows)/2); x.indexed || len(rows) == 1 {
			res.Kept, res.Why = res.Kept+1, words(refused)
			done++
		}
		if x.indexed {
			break
		}
	}
	return done, nil
}
