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

// comparedRows are compared by one statement.
const comparedRows = 200

// Compare implements [sink.Inspector].
func (d *DB) Compare(ctx context.Context, b *fold.Batch, differs func(sink.Difference) bool) error {
	if _, err := sink.Table(ctx, d.Tables, b.Table.Name, b.Table.KeyColumns()); err != nil {
		return err
	}
	if err := d.readAbove(ctx, b); err != nil {
		return err
	}
	all := b.Sorted()
	t := d.known(b.Table.Name)
	m := d.newMerge(b, t, t.relation, all)
	return d.askRows(ctx, all, m.compareSQL, func(rows []*fold.Row, answer [][][]byte) bool {
		for _, row := range answer {
			diff := &sink.Difference{Row: rows[number(row[0])]}
			switch {
			case string(row[1]) == "f":
				diff.Kind = sink.Missing
			case diff.Row.Deleted:
				diff.Kind = sink.Removed
			default:
				diff = m.difference(diff.Row, row[2:])
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
	if _, err := sink.Table(ctx, d.Tables, b.Table.Name, b.Table.KeyColumns()); err != nil {
		return err
	}
	if err := d.readAbove(ctx, b); err != nil {
		return err
	}
	rows := b.Sorted()
	t := d.known(b.Table.Name)
	m := d.newMerge(b, t, t.relation, rows)
	known := map[string]bool{}
	keyOf := func(row [][]byte) string { return fmt.Sprintf("%q", row) }
	err := d.askRows(ctx, rows, m.knownSQL, func(_ []*fold.Row, answer [][][]byte) bool {
		for _, row := range answer {
			known[keyOf(row)] = true
		}
		return true
	}, func(*fold.Row, *pgconn.PgError) bool { return true })
	if err != nil {
		return err
	}
	keys := m.keyTexts()
	page := len(known) + comparedRows // so the first one has others, where there are any
	for begin := 0; ; begin += page {
		r, err := d.query(ctx, fmt.Sprintf("SELECT %s FROM %s t ORDER BY %s LIMIT %d OFFSET %d", keys, m.table.ident, keys, page, begin))
		if err != nil {
			return d.explain(err)
		}
		for _, row := range r[0].rows {
			if !known[keyOf(row)] && !each(string(bytes.Join(row, []byte(",")))) {
				return nil
			}
		}
		if len(r[0].rows) < page {
			return nil
		}
	}
}

// askRows asks the database about rows, some by each statement, until an answer or refused, which gets a
// row of which the database cannot read a value, returns false.
func (d *DB) askRows(ctx context.Context, all []*fold.Row, sql func([]*fold.Row) string, answer func([]*fold.Row, [][][]byte) bool, refused func(*fold.Row, *pgconn.PgError) bool) error {
	for rows := range slices.Chunk(all, comparedRows) {
		if more, err := d.askSome(ctx, rows, sql, answer, refused); err != nil || !more {
			return err
		}
	}
	return nil
}

// askSome is askRows of a statement's rows, which it halves where the database cannot read a value.
func (d *DB) askSome(ctx context.Context, rows []*fold.Row, sql func([]*fold.Row) string, answer func([]*fold.Row, [][][]byte) bool, refused func(*fold.Row, *pgconn.PgError) bool) (more bool, err error) {
	r, err := d.query(ctx, "BEGIN READ ONLY", sql(rows), "COMMIT")
	if err == nil {
		return answer(rows, r[1].rows), nil
	}
	why := pgError(err)
	if d.conn != nil {
		if undo := d.rollback(ctx); undo != nil {
			return false, d.explain(errors.Join(err, undo))
		}
	}
	switch {
	case !isRefusal(why):
		return false, d.explain(err)
	case len(rows) == 1:
		return refused(rows[0], why), nil
	}
	for half := range slices.Chunk(rows, (len(rows)+1)/2) {
		if more, err := d.askSome(ctx, half, sql, answer, refused); err != nil || !more {
			return more, err
		}
	}
	return true, nil
}

// difference is the first of a row's differences that is more than one of spelling, or
// nil. have is as compareSQL asks for it.
func (m *merge) difference(r *fold.Row, have [][]byte) *sink.Difference {
	for i, u := range m.used {
		if have[i] == nil {
			continue
		}
		raw := m.b.Value(r, u.from)
		switch {
		case have[i][0] == 'n':
			return &sink.Difference{Row: r, Kind: sink.Differs, Column: u.from, Have: "NULL"}
		case raw == nil || !m.table.Columns[u.at].Respelled(raw, have[i][1:]):
			return &sink.Difference{Row: r, Kind: sink.Differs, Column: u.from, Have: string(have[i][1:])}
		}
	}
	return nil
}

// compareSQL asks for the rows that the table has otherwise: the row's number,
// whether the table has it, and for each column that is used NULL where it is as it
// should be, else 'v' and its text, or 'n' for a NULL.
func (m *merge) compareSQL(rows []*fold.Row) string {
	have, differ := []string{}, []string{"NULL"}
	for _, u := range m.used {
		name := "c" + strconv.Itoa(u.at)
		c := &m.table.Columns[u.at]
		if c.Key {
			have = append(have, "NULL AS "+name)
			continue
		}
		column := "t." + ident(c.Name)
		differs := distinct(m.table.cols[u.at].image, "v."+name, column)
		if c.Default != "" {
			differs = "v." + name + notNull + " AND " + differs
		}
		have = append(have, fmt.Sprintf("CASE WHEN %s THEN coalesce('v' || %s::text, 'n') END AS %s", differs, column, name))
		differ = append(differ, name)
	}
	return fmt.Sprintf("SELECT * FROM (SELECT v.n, t.ctid IS NOT NULL AS there, %s, v.gone FROM %s LEFT JOIN %s) x"+
		" WHERE there = gone OR there AND coalesce(%s) IS NOT NULL ORDER BY n",
		strings.Join(have, ", "), m.given(rows), m.joined(), strings.Join(differ, ", "))
}

// knownSQL asks for the keys of the rows that the table has.
func (m *merge) knownSQL(rows []*fold.Row) string {
	return fmt.Sprintf("SELECT %s FROM %s JOIN %s", m.keyTexts(), m.given(rows), m.joined())
}

// keyTexts are the columns of the key of a row t, as text.
func (m *merge) keyTexts() string {
	var keys []string
	for i := range m.table.Columns {
		if c := &m.table.Columns[i]; c.Key {
			keys = append(keys, "t."+ident(c.Name)+"::text")
		}
	}
	return strings.Join(keys, ", ")
}

// joined is the table t, on the keys of the rows v.
func (m *merge) joined() string {
	return m.table.ident + " t ON " + strings.ReplaceAll(m.on(), "s.c", "v.c")
}

// given are rows as a relation v, with their numbers, and whether they are deleted.
func (m *merge) given(rows []*fold.Row) string {
	names := []string{"n", "gone"}
	for _, u := range m.used {
		if !u.found {
			names = append(names, "c"+strconv.Itoa(u.at))
		}
	}
	tuples := make([]string, len(rows))
	for n, r := range rows {
		values := []string{strconv.Itoa(n), strconv.FormatBool(r.Deleted)}
		for _, u := range m.used {
			if u.found {
				continue
			}
			raw := m.b.Value(r, u.from)
			if m.b.Initial(r, u.from) {
				raw = nil // it may have its default
			}
			values = append(values, m.literal(raw, &m.table, u.at))
		}
		if m.owner != nil {
			for i, p := range m.owner.parts {
				values = append(values, m.literal(m.b.Value(r, m.owner.From[i]), p.table, p.at))
			}
		}
		for _, ref := range m.refs {
			values = append(values, m.literal(m.b.Value(r, ref.From[0]), ref.to, ref.key))
		}
		tuples[n] = "(" + strings.Join(values, ", ") + ")"
	}
	from := fmt.Sprintf("(VALUES %s)", strings.Join(tuples, ", "))
	found, more := []string(nil), []string(nil)
	if m.owner != nil {
		for _, at := range m.owner.From {
			names = append(names, hiddenName(at))
		}
		found, more = append(found, fmt.Sprintf(", (%s)", m.finder(m.stagedPart).Find(m.owner.To))), append(more, fmt.Sprintf("c%d", m.owner.at))
	}
	for _, ref := range m.refs {
		names = append(names, hiddenName(ref.From[0]))
		found, more = append(found, fmt.Sprintf(", (%s)", ref.find(m))), append(more, fmt.Sprintf("c%d", ref.at))
	}
	if found != nil {
		from = fmt.Sprintf("(SELECT s.*%s FROM %s s(%s))", strings.Join(found, ""), from, strings.Join(names, ", "))
		names = append(names, more...)
	}
	return fmt.Sprintf("%s v(%s)", from, strings.Join(names, ", "))
}

// literal is a raw value, nil for NULL, as a column of a table would keep it.
func (m *merge) literal(raw []byte, in *relation, at int) string {
	kind := "::" + in.cols[at].staged
	if raw == nil || raw[0] == 'n' {
		return "NULL" + kind
	}
	return quote(string(m.text(raw, in.Columns[at].Type))) + kind
}
