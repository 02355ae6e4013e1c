package postgres

import (
	"bytes"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
)

// blame returns which of a part's rows has the values that an error about its table shows, or -1. It
// is a guess, for values are shown as the server writes them, and not apart from each other.
func (c *chunks) blame(e *pgconn.PgError, table int) (at int) {
	p := c.parts[table]
	if _, name := c.d.schemaOf(p.b.Table.Name); p.plan == nil || e.TableName != name {
		return -1
	}
	b := p.b
	if p.set {
		b = b.Exploded()
	}
	columns, values := shown(e.Detail, p, b)
	if len(columns) == 0 {
		return -1
	}
	return slices.IndexFunc(p.writes, func(r *fold.Row) bool {
		for i, col := range columns {
			if v := b.Value(r, col); v == nil || plainText(v) != values[i] {
				return false
			}
		}
		return true
	})
}

// top returns a row of a table; of a row of a set, the row that has the set as a value. -1 is no row.
func (c *chunks) top(table, at int) (of, row int) {
	of = fold.Top(c.f.Batches, table)
	if at < 0 || of == table {
		return table, at
	}
	p, above := c.parts[table], c.parts[of]
	value := p.b.Exploded().Value
	return of, slices.IndexFunc(above.writes, func(r *fold.Row) bool {
		for i, k := range above.b.Table.Key {
			if !bytes.Equal(above.b.Value(r, k), value(p.writes[at], p.b.Child.Key[i])) {
				return false
			}
		}
		return true
	})
}

// shown are the columns of a batch whose values the detail of an error shows: those that it names,
// as in "Key (a, b)=(1, 2) …", or those of the key, as in "… row contains (1, 2, …)".
func shown(detail string, p *part, b *fold.Batch) (columns []int, values []string) {
	from, to := strings.IndexByte(detail, '('), strings.LastIndexByte(detail, ')')
	if from < 0 || to < from {
		return nil, nil
	}
	text, key := detail[from+1:to], true
	var names []string
	for _, between := range []string{")=(", ") = ("} {
		if head, tail, named := strings.Cut(text, between); named {
			names, text, key = strings.Split(head, ", "), tail, between == ") = ("
			break
		}
	}
	if names == nil {
		for i := range p.after.Columns {
			names = append(names, p.after.Columns[i].Name)
		}
	}
	all := strings.Split(text, ", ")
	if len(all) != len(names) {
		return nil, nil
	}
	for i, name := range names {
		switch at := caps.Find(&b.Table, strings.Trim(name, `"`), i); {
		case key && (at < 0 || !slices.Contains(b.Table.Key, at)):
		case at < 0:
			return nil, nil
		default:
			columns, values = append(columns, at), append(values, all[i])
		}
	}
	if key && len(columns) < len(b.Table.Key) {
		return nil, nil
	}
	return columns, values
}

// plainText is a raw value as the server most likely writes it.
func plainText(raw []byte) string {
	if raw[0] == '"' {
		raw = feed.Text(nil, raw, feed.String)
	}
	return string(raw)
}
