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

// Compare implements [sink.Inspector].
func (d *DB) Compare(ctx context.Context, b *fold.Batch, differs func(sink.Difference) bool) error {
	if _, err := d.Table(ctx, b.Table.Name, b.Table.KeyColumns()); err != nil {
		return err
	}
	if err := d.readAbove(ctx, b); err != nil {
		return err
	}
	all := b.Sorted()
	t := d.known(b.Table.Name)
	m := d.newMerge(b, t, t.relation, all)
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
			return false, nil
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
	names := []string{"n", "gone"}
	have, differ := []string{}, []string{"NULL"}
	for _, u := range m.used {
		name := "c" + strconv.Itoa(u.at)
		if !u.found {
			names = append(names, name)
		}
		c := &m.table.Columns[u.at]
		if c.Key {
			have = append(have, "NULL AS "+name)
			continue
		}
		column := "t." + ident(c.Name)
		differs := distinct(m.table.cols[u.at].image, "v."+name, column)
		if m.mayBeNull(u.at) {
			differs = column + notNull + " AND " + differs
		}
		if c.Default != "" {
			differs = "v." + name + notNull + " AND " + differs
		}
		have = append(have, fmt.Sprintf("CASE WHEN %s THEN coalesce('v' || %s::text, 'n') END AS %s", differs, column, name))
		differ = append(differ, name)
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
		m.hiddenRefs(func(ref *reference) { values = append(values, m.literal(m.b.Value(r, ref.From[0]), ref.to, ref.key)) })
		tuples[n] = "(" + strings.Join(values, ", ") + ")"
	}
	on := strings.ReplaceAll(m.on(), "s.c", "v.c")
	from := fmt.Sprintf("(VALUES %s)", strings.Join(tuples, ", "))
	found, more := []string(nil), []string(nil)
	if m.owner != nil {
		for _, at := range m.owner.From {
			names = append(names, hiddenName(at))
		}
		found, more = append(found, fmt.Sprintf(", (%s)", m.finder(m.stagedPart).Find(m.owner.To))), append(more, fmt.Sprintf("c%d", m.owner.at))
	}
	m.hiddenRefs(func(r *reference) {
		names = append(names, hiddenName(r.From[0]))
		found, more = append(found, fmt.Sprintf(", (%s)", r.find(m))), append(more, fmt.Sprintf("c%d", r.at))
	})
	if found != nil {
		from = fmt.Sprintf("(SELECT s.*%s FROM %s s(%s))", strings.Join(found, ""), from, strings.Join(names, ", "))
		names = append(names, more...)
	}
	return fmt.Sprintf("SELECT * FROM (SELECT v.n, t.ctid IS NOT NULL AS there, %s, v.gone FROM %s v(%s) LEFT JOIN %s t ON %s) x"+
		" WHERE there = gone OR there AND coalesce(%s) IS NOT NULL ORDER BY n",
		strings.Join(have, ", "), from, strings.Join(names, ", "), m.table.ident, on, strings.Join(differ, ", "))
}

// literal is a raw value, nil for NULL, as a column of a table would keep it.
func (m *merge) literal(raw []byte, in *relation, at int) string {
	kind := "::" + in.cols[at].staged
	if raw == nil || raw[0] == 'n' {
		return "NULL" + kind
	}
	text := string(raw)
	switch t := in.Columns[at].Type; {
	case raw[0] == '"' && t != schema.JSON:
		text = string(feed.Text(nil, raw, feed.String))
	case raw[0] == '[' && t == schema.Array:
		text = string(appendArray(nil, raw))
	case t == schema.Int:
		if n, ok := feed.ParseInt(raw, feed.KindOf(raw)); ok {
			text = strconv.FormatInt(n, 10)
		}
	}
	return quote(text) + kind // what the encoding does not hold, the server refuses
}
