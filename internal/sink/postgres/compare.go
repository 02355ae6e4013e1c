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
	"github.com/weirsync/weir/internal/fold/schema"
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
	return d.askRows(ctx, c.rows, c.comparedSQL, func(rows []*fold.Row, answer [][][]byte) bool {
		for _, row := range answer {
			if diff := c.difference(rows[sink.Number(row[0])], string(row[1]) == "t", row[2:]); diff != nil && !differs(*diff) {
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
	n, more := len(b.Table.Key), true
	return d.eachRow(ctx, c.keysSQL(), func(row [][]byte) {
		known := !slices.ContainsFunc(row[:n], func(part []byte) bool { return part == nil }) && b.Has(fold.AppendKey(nil, &b.Table, row[:n]))
		more = more && (known || each(string(bytes.Join(row[n:], []byte(",")))))
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
	s.addAll(readOnly...)
	s.put(statement{sql: query, each: each})
	s.add("COMMIT")
	_, err := d.run(ctx, s)
	if err != nil {
		err = errors.Join(err, d.rollback(ctx))
	}
	return d.sinkError(err)
}

// readOnly begins a transaction in which texts do not depend on the role's settings.
var readOnly = []string{"BEGIN READ ONLY", arrayNulls, allDigits}

// askRows queries rows, some per statement, until answer returns false. It calls refused with a row if the database
// cannot read a value in it: it halves a statement that fails until it finds the row.
func (d *DB) askRows(ctx context.Context, all []*fold.Row, sql func([]*fold.Row) string, answer func([]*fold.Row, [][][]byte) bool, refused func(*fold.Row, *pgconn.PgError) bool) error {
	for todo := slices.Collect(slices.Chunk(all, comparedRows)); len(todo) > 0; {
		rows := todo[0]
		todo = todo[1:]
		r, err := d.query(ctx, append(slices.Clone(readOnly), sql(rows), "COMMIT")...)
		if err == nil {
			if !answer(rows, r[len(readOnly)].rows) {
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

// difference returns a row's first difference in value, not only in spelling, or nil. texts is the rest of a row of
// comparedSQL.
func (c *comparison) difference(r *fold.Row, exists bool, texts [][]byte) *sink.Difference {
	switch {
	case r.Deleted && exists:
		return &sink.Difference{Row: r, Kind: sink.Removed}
	case r.Deleted:
		return nil
	case !exists:
		return &sink.Difference{Row: r, Kind: sink.Missing}
	}
	for i, u := range c.columns {
		ours, theirs, raw := texts[2*i], texts[2*i+1], c.b.Value(r, u.from)
		switch of := &c.table.Columns[u.at]; {
		case of.Key, bytes.Equal(ours, theirs) && (ours == nil) == (theirs == nil), ours == nil && of.Default != "":
		case theirs == nil:
			return &sink.Difference{Row: r, Kind: sink.Differs, Column: u.from, Have: "NULL"}
		case raw == nil || !c.b.Table.Columns[u.from].Respelled(raw, theirs):
			return &sink.Difference{Row: r, Kind: sink.Differs, Column: u.from, Have: string(theirs)}
		}
	}
	return nil
}

// comparedSQL queries, for each row, its number, whether the table has it, and for each staged column both texts.
func (c *comparison) comparedSQL(rows []*fold.Row) string {
	texts := ""
	for _, u := range c.columns {
		texts += fmt.Sprintf(", s.c%d::text, %s::text", u.at, c.table.column(u.at))
	}
	return fmt.Sprintf("SELECT s.n, t.ctid IS NOT NULL%s\nFROM %s\nLEFT JOIN %s t ON %s\nORDER BY s.n", texts, c.given(rows), c.table.ident, c.on())
}

// keysSQL queries the keys of the table's rows: each part as JSON, as in messages, and then each column's text.
func (c *comparison) keysSQL() string {
	var texts []string
	for i := range c.table.Columns {
		if c.table.Columns[i].Key {
			texts = append(texts, c.table.column(i)+"::text")
		}
	}
	return fmt.Sprintf("SELECT %s, %s\nFROM %s t\nORDER BY %[2]s", strings.Join(c.keyParts(&c.b.Table), ", "), strings.Join(texts, ", "), c.table.ident)
}

// keyParts returns SQL, as JSON, for each part of the key of a row t as in messages of a table.
func (s *shape) keyParts(of *schema.Table) (parts []string) {
	owner := s.owner()
	var hidden []string
	if owner != nil {
		hidden = owner.finder(nil).Parts(owner.To, s.table.column(owner.at))
	}
	for _, k := range of.Key {
		c, sql := &of.Columns[k], ""
		if c.Hidden {
			sql = hidden[slices.Index(owner.From, k)]
		} else {
			sql = s.table.column(caps.Find(&s.table.Table, c.Name, k))
		}
		parts = append(parts, "to_json("+sql+")::text")
	}
	return parts
}

// given returns the rows as a relation s, with the columns of a staging table.
func (c *comparison) given(rows []*fold.Row) string {
	copied, names := c.copied(), []string{"n"}
	for _, v := range copied {
		names = append(names, v.name)
	}
	tuples := make([]string, len(rows))
	for n, r := range rows {
		values := []string{strconv.Itoa(n)}
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
