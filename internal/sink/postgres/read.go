package postgres

import (
	"context"
	"errors"
	"strings"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink"
)

// Read implements [sink.Inspector]: the rows' pages are then in the memory of the server.
func (d *DB) Read(ctx context.Context, b *fold.Batch, rows []*fold.Row) error {
	if err := d.connect(ctx); err != nil {
		return err
	}
	t := d.known(b.Table.Name)
	if !t.Exists {
		if known, err := sink.Table(ctx, d.Tables, b.Table.Name, b.Table.KeyColumns()); err != nil || !known.Exists {
			return err
		}
	}
	if err := d.readAbove(ctx, b); err != nil {
		return err
	}
	columns := make([]string, len(t.Key))
	for i, k := range t.Key {
		columns[i] = t.compared(k)
	}
	m := d.newMerge(b, t, t.relation, nil)
	var tuples []string
	for _, r := range rows {
		var tuple []string
		text := func(k int) string {
			raw := b.Value(r, k)
			return d.literal(string(feed.Text(nil, raw, feed.KindOf(raw))))
		}
		for _, k := range b.Table.StoredKey() {
			if o := m.owner; o != nil && k == o.Column {
				tuple = append(tuple, "("+m.finder(func(i int) string { return text(o.From[i]) }).Find(o.To)+")")
			} else {
				tuple = append(tuple, text(k))
			}
		}
		tuples = append(tuples, "("+strings.Join(tuple, ", ")+")")
	}
	// A whole row is asked for, or an index that has the key would do.
	_, err := d.query(ctx, "BEGIN READ ONLY", "SET LOCAL enable_seqscan = off",
		"SELECT count(t.*) FROM "+t.ident+" t WHERE ("+strings.Join(columns, ", ")+") IN ("+strings.Join(tuples, ", ")+")", "COMMIT")
	if err != nil && d.conn != nil {
		err = errors.Join(err, d.rollback(ctx))
	}
	return d.explain(err)
}
