package postgres

import (
	"bytes"
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

// comparedRows is how many rows one statement compares.
const comparedRows = 200

// Compare implements [sink.Inspector].
func (d *DB) Compare(ctx context.Context, b *fold.Batch, differs func(sink.Difference) bool) error {
	c, err := d.newComparison(ctx, b)
	if err != nil {
		return err
	}
	return d.askRows(ctx, c.rows, c.differSQL, func(rows []*fold.Row, answer [][][]byte) bool {
		for _, row := range answer {
			diff := &sink.Difference{Row: rows[number(row[0])]}
			switch {
			case string(row[1]) == "f":
				diff.Kind = sink.Missing
			case diff.Row.Deleted:
				diff.Kind = sink.Removed
			default:
				diff = c.difference(diff.Row, row[2:])
			}
			if diff != nil && !differs(*diff) {
				return false
			}
		}
		return true
	}, func(r *fold.Row, why *pgconn.PgError) bool {
		return differs(sink.Difference{Row: r, Kind: sink.Refused, Have: words(why)})
	})
}

// Others implements [sink.Inspector].
func (d *DB) Others(ctx context.Context, b *fold.Batch, each func(key string) bool) error {
	c, err := d.newComparison(ctx, b)
	if err != nil {
		return err
	}
	known := map[string]bool{}
	keyOf := func(row [][]byte) string { return fmt.Sprintf("%q", row) }
	err = d.askRows(ctx, c.rows, c.knownSQL, func(_ []*fold.Row, answer [][][]byte) bool {
		for _, row := range answer {
			known[keyOf(row)] = true
		}
		return true
	}, func(*fold.Row, *pgconn.PgError) bool { return true })
	if err != nil {
		return err
	}
	more := true
	return d.eachRow(ctx, fmt.Sprintf("SELECT %s FROM %s t ORDER BY %[1]s", c.keyTexts(), c.table.ident), func(row [][]byte) {
		more = more && (known[keyOf(row)] || each(string(bytes.Join(row, []byte(",")))))
	})
}

// Sums implements [sink.Inspector]. The server formats the texts of both.
func (d *DB) Sums(ctx context.Context, b *fold.Batch) (have, want sink.RowSum, err error) {
	c, err := d.newComparison(ctx, b)
	if err != nil {
		return have, want, err
	}
	var ours, theirs []string
	for _, u := range c.columns {
		if of := &c.table.Columns[u.at]; of.Default == "" {
			ours, theirs = append(ours, fmt.Sprintf("s.c%d::text", u.at)), append(theirs, "t."+ident(of.Name)+"::text")
		}
	}
	rows := slices.DeleteFunc(c.rows, func(r *fold.Row) bool { return r.Deleted })
	err = d.askRows(ctx, rows, func(rows []*fold.Row) string {
		return "SELECT " + strings.Join(ours, ", ") + "\nFROM " + c.given(rows)
	}, func(_ []*fold.Row, answer [][][]byte) bool {
		for _, row := range answer {
			want.Add(row)
		}
		return true
	}, func(*fold.Row, *pgconn.PgError) bool {
		want.Rows++ // the table cannot have such a row
		return true
	})
	if err != nil {
		return have, want, err
	}
	return have, want, d.eachRow(ctx, "SELECT "+strings.Join(theirs, ", ")+" FROM "+c.table.ident+" t", have.Add)
}

// eachRow calls each with every row of a query, which it does not hold in memory.
func (d *DB) eachRow(ctx context.Context, query string, each func(row [][]byte)) error {
	s := &script{}
	s.put(statement{sql: query, each: each})
	_, err := d.run(ctx, s)
	return d.sinkError(err)
}

// askRows queries rows, some per statement, until answer returns false. It calls refused with a row if the database
// cannot read a value in it: it halves a statement that fails until it finds the row.
func (d *DB) askRows(ctx context.Context, all []*fold.Row, sql func([]*fold.Row) string, answer func([]*fold.Row, [][][]byte) bool, refused func(*fold.Row, *pgconn.PgError) bool) error {
	for todo := slices.Collect(slices.Chunk(all, comparedRows)); len(todo) > 0; {
		rows := todo[0]
		todo = todo[1:]
		r, err := d.query(ctx, "BEGIN READ ONLY", arrayNulls, sql(rows), "COMMIT")
		if err == nil {
			if !answer(rows, r[2].rows) {
				return nil
			}
			continue
		}
		why := pgError(err)
		if undo := d.rollback(ctx); undo != nil {
			return d.sinkError(errors.Join(err, undo))
		}
		switch {
		case !isRefusal(why):
			return d.sinkError(err)
		case len(rows) > 1:
			todo = append(slices.Collect(slices.Chunk(rows, (len(rows)+1)/2)), todo...)
		case !refused(rows[0], why):
			return nil
		}
	}
	return nil
}

// A comparison queries what the database has for rows of a batch.
type comparison struct {
	*shape
	b    *fold.Batch
	rows []*fold.Row
	text valueText
}

func (d *DB) newComparison(ctx context.Context, b *fold.Batch) (*comparison, error) {
	if _, err := sink.Table(ctx, d.Tables, b.Table.Name, b.Table.KeyColumns()); err != nil {
		return nil, err
	}
	if err := d.readReferred(ctx, &b.Table); err != nil {
		return nil, err
	}
	rows, known := b.Sorted(), func(name string) *relation { return &d.tableOf(name).relation }
	return &comparison{shape: newShape(b, "", *known(b.Table.Name), rows, known), b: b, rows: rows}, nil
}

// difference returns a row's first difference in value, not only in spelling, or nil. have is a result row of
// differSQL.
func (c *comparison) difference(r *fold.Row, have [][]byte) *sink.Difference {
	for i, u := range c.columns {
		if have[i] == nil {
			continue
		}
		raw := c.b.Value(r, u.from)
		switch {
		case have[i][0] == 'n':
			return &sink.Difference{Row: r, Kind: sink.Differs, Column: u.from, Have: "NULL"}
		case raw == nil || !c.b.Table.Columns[u.from].Respelled(raw, have[i][1:]):
			return &sink.Difference{Row: r, Kind: sink.Differs, Column: u.from, Have: string(have[i][1:])}
		}
	}
	return nil
}

// differSQL queries the rows that differ in the table: the row's number, whether it exists, and for each staged column
// NULL if it is equal, else 'v' and its text, or 'n' for NULL.
func (c *comparison) differSQL(rows []*fold.Row) string {
	have, differ := []string{}, []string{"NULL"}
	for _, u := range c.columns {
		name := "c" + strconv.Itoa(u.at)
		of := &c.table.Columns[u.at]
		if of.Key {
			have = append(have, "NULL AS "+name)
			continue
		}
		column := "t." + ident(of.Name)
		differs := distinct(c.table.cols[u.at].image, "s."+name, column)
		if of.Default != "" {
			differs = "s." + name + notNull + " AND " + differs
		}
		have = append(have, fmt.Sprintf("CASE WHEN %s THEN coalesce('v' || %s::text, 'n') END AS %s", differs, column, name))
		differ = append(differ, name)
	}
	return fmt.Sprintf("SELECT * FROM (\n  SELECT s.n, t.ctid IS NOT NULL AS there,\n    %s,\n    s.gone\n  FROM %s\n  LEFT JOIN %s t ON %s) x\n"+
		"WHERE there = gone OR there AND coalesce(%s) IS NOT NULL\nORDER BY n",
		strings.Join(have, ",\n    "), c.given(rows), c.table.ident, c.on(), strings.Join(differ, ", "))
}

// knownSQL queries the keys of the rows that the table has.
func (c *comparison) knownSQL(rows []*fold.Row) string {
	return fmt.Sprintf("SELECT %s\nFROM %s\nJOIN %s t ON %s", c.keyTexts(), c.given(rows), c.table.ident, c.on())
}

// keyTexts returns SQL for the key columns of a row t, as text.
func (c *comparison) keyTexts() string {
	var keys []string
	for i := range c.table.Columns {
		if c := &c.table.Columns[i]; c.Key {
			keys = append(keys, "t."+ident(c.Name)+"::text")
		}
	}
	return strings.Join(keys, ", ")
}

// given returns the rows as a relation s, with the columns of a staging table, and whether they are deleted.
func (c *comparison) given(rows []*fold.Row) string {
	copied, names := c.copied(), []string{"n", "gone"}
	for _, v := range copied {
		names = append(names, v.name)
	}
	tuples := make([]string, len(rows))
	for n, r := range rows {
		values := []string{strconv.Itoa(n), strconv.FormatBool(r.Deleted)}
		for _, v := range copied {
			raw := c.b.Value(r, v.from)
			if c.b.Initial(r, v.from) {
				raw = nil // it may have its default
			}
			values = append(values, c.literal(raw, v.of, v.at))
		}
		tuples[n] = "(" + strings.Join(values, ", ") + ")"
	}
	from := "(VALUES\n    " + strings.Join(tuples, ",\n    ") + ")"
	if len(c.resolved) > 0 {
		found := ""
		for i := range c.resolved {
			found += ", (" + c.resolved[i].find() + ")"
		}
		from = fmt.Sprintf("(SELECT s.*%s FROM %s s (%s))", found, from, strings.Join(names, ", "))
	}
	for i := range c.resolved {
		names = append(names, fmt.Sprintf("c%d", c.resolved[i].at))
	}
	return fmt.Sprintf("%s s (%s)", from, strings.Join(names, ", "))
}

// literal returns SQL for a raw value, nil for NULL, as a column of a table would store it.
func (c *comparison) literal(raw []byte, in *relation, at int) string {
	kind := "::" + in.cols[at].staged
	if raw == nil || raw[0] == 'n' {
		return "NULL" + kind
	}
	return quote(string(c.text.of(raw, in.Columns[at].Type))) + kind
}
