package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
)

// comparedRows are compared by one statement.
const comparedRows = 200

// Compare implements [sink.Comparer].
func (d *DB) Compare(ctx context.Context, b *fold.Batch, differs func(sink.Difference) bool) error {
	if _, err := d.Table(ctx, b.Table.Name, b.Table.KeyColumns()); err != nil {
		return err
	}
	all := b.Sorted()
	m := d.newMerge(b, d.table, all)
	for rows := range slices.Chunk(all, comparedRows) {
		if more, err := d.compare(ctx, m, rows, differs); err != nil || !more {
			return err
		}
	}
	return nil
}

// compare compares some rows, and halves them where the database cannot read a value.
// It returns false where differs has.
func (d *DB) compare(ctx context.Context, m *merge, rows []*fold.Row, differs func(sink.Difference) bool) (more bool, err error) {
	r, err := d.query(ctx, "BEGIN READ ONLY", m.compareSQL(rows), "COMMIT")
	if err != nil {
		refused := pgError(err)
		if d.conn != nil {
			if undo := d.rollback(ctx); undo != nil {
				return false, d.explain(errors.Join(err, undo))
			}
		}
		switch {
		case !isRefusal(refused):
			return false, d.explain(err)
		case len(rows) == 1:
			return differs(sink.Difference{Row: rows[0], Kind: sink.Refused, Have: words(refused)}), nil
		}
		for half := range slices.Chunk(rows, (len(rows)+1)/2) {
			if more, err := d.compare(ctx, m, half, differs); err != nil || !more {
				return more, err
			}
		}
		return true, nil
	}
	for _, row := range r[1].rows {
		diff := sink.Difference{Row: rows[number(row[0])]}
		switch {
		case string(row[1]) == "f":
			diff.Kind = sink.Missing
		case diff.Row.Deleted:
			diff.Kind = sink.Extra
		default:
			diff.Column, diff.Have = int(number(row[2])), "NULL"
			if row[3] != nil {
				diff.Have = string(row[3])
			}
		}
		if !differs(diff) {
			return false, nil
		}
	}
	return true, nil
}

// compareSQL asks for the rows that the table has otherwise: the row's number,
// whether it is there, and the first column that differs with what is in it.
func (m *merge) compareSQL(rows []*fold.Row) string {
	names := []string{"n", "gone"}
	var which, have []string
	for _, u := range m.used {
		names = append(names, "c"+strconv.Itoa(u.at))
		c := &m.table.Columns[u.at]
		if c.Key {
			continue
		}
		column := "t." + ident(c.Name)
		differs := distinct(m.table.cols[u.at].image, fmt.Sprintf("v.c%d", u.at), column)
		if c.Default {
			differs = fmt.Sprintf("v.c%d%s AND ", u.at, notNull) + differs
		}
		which = append(which, fmt.Sprintf("WHEN %s THEN %d", differs, u.from))
		have = append(have, fmt.Sprintf("WHEN %s THEN %s::text", differs, column))
	}
	if len(which) == 0 {
		which, have = []string{"WHEN false THEN 0"}, []string{"WHEN false THEN ''"}
	}
	tuples := make([]string, len(rows))
	for n, r := range rows {
		values := []string{strconv.Itoa(n), strconv.FormatBool(r.Deleted)}
		for _, u := range m.used {
			values = append(values, m.literal(m.b.Value(r, u.from), u.at))
		}
		tuples[n] = "(" + strings.Join(values, ", ") + ")"
	}
	on := strings.ReplaceAll(m.on(), "s.c", "v.c")
	return fmt.Sprintf("SELECT * FROM (SELECT v.n, t.ctid IS NOT NULL AS there, CASE %s END AS which, CASE %s END, v.gone FROM (VALUES %s) v(%s) LEFT JOIN %s t ON %s) x"+
		" WHERE there = gone OR there AND which IS NOT NULL ORDER BY n",
		strings.Join(which, " "), strings.Join(have, " "), strings.Join(tuples, ", "), strings.Join(names, ", "), m.table.ident, on)
}

// literal is a raw value, nil for NULL, as the column at an index would keep it.
func (m *merge) literal(raw []byte, at int) string {
	kind := "::" + m.table.cols[at].staged
	if raw == nil || raw[0] == 'n' {
		return "NULL" + kind
	}
	text := string(raw)
	switch t := m.table.Columns[at].Type; {
	case raw[0] == '"' && t != schema.JSON:
		text = string(feed.Text(nil, raw, feed.String))
	case raw[0] == '[' && t == schema.Array:
		b, _ := appendArray(nil, raw)
		text = string(b)
	case t == schema.Int:
		if n, ok := feed.ParseInt(raw, feed.KindOf(raw)); ok {
			text = strconv.FormatInt(n, 10)
		}
	}
	return m.d.literal(text) + kind
}
