package sqlite

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	lib "modernc.org/sqlite/lib"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/sink"
)

// pieces writes the rows of a flush's tables in pieces. A piece that the database rejects is undone alone.
type pieces struct {
	c       *conn
	ctx     context.Context
	batches []*fold.Batch
	tables  []*table
	writers []*writer // by table; nil if the batch has no rows
	// explosion makes the rows of sets.
	explosion *fold.Explosion
	// undoes says that the rows' messages were kept. If not, a rejected row undoes the whole flush.
	undoes bool
	counts []sink.Counts // by table: what the writers did
	sent   int           // rows written
	f      *sink.Flush
}

// writeRows applies a flush to the tables, and replaces those that it changes.
func (d *DB) writeRows(ctx context.Context, f *sink.Flush, tables []*table) (res sink.Result, err error) {
	d.c.tidy() // before any statement of this flush is prepared
	p := &pieces{f: f, c: d.c, ctx: ctx, batches: f.Batches, tables: tables, writers: make([]*writer, len(tables)), undoes: true}
	if p.counts, err = d.truncate(ctx, f, tables); err != nil {
		return res, err
	}
	batches, rows := slices.Clone(f.Batches), make([][]*fold.Row, len(tables))
	for i, b := range f.Batches {
		if !b.Used() && !tables[i].lags(tables) {
			continue
		}
		if tables[i], err = d.fit(ctx, b, tables[i], tables); err != nil {
			return res, err
		}
		if !b.Used() {
			continue
		}
		rows[i], p.undoes = b.Sorted(), p.undoes && b.Table.HasConstraints
	}
	p.explosion = fold.NewExplosion(f.Batches, func(i int) *schema.Table { return &tables[i].Table })
	for i, b := range f.Batches {
		if !b.Used() {
			continue
		}
		if b.Child != nil && b.Child.Set {
			b = b.Exploded()
		}
		if p.writers[i], err = d.newWriter(ctx, b, tables[i], f, &p.counts[i]); err != nil {
			return res, err
		}
		batches[i] = p.writers[i].layout.b
	}
	if err := p.nest(); err != nil {
		return res, err
	}
	if err = p.Write(rows, false); errors.As(err, new(*sink.Refusal)) {
		res.Refused, err = sink.Search(f, batches, rows, p)
	}
	res.Tables = p.counts
	return res, err
}

// truncate removes all rows of the tables that a flush begins by emptying, children before their parents, and returns
// each table's number of rows.
func (d *DB) truncate(ctx context.Context, f *sink.Flush, tables []*table) (removed []sink.Counts, err error) {
	removed = make([]sink.Counts, len(tables))
	for i, b := range slices.Backward(f.Batches) {
		if b.Truncated == nil {
			continue
		}
		t := tables[i]
		if !t.Exists { // another run may have created it since
			if t, err = d.readTable(ctx, t.Name, t.key); err != nil {
				return nil, err
			}
		}
		if !t.Exists {
			continue
		}
		if err := d.c.exec("DELETE FROM " + quote(t.Name)); err != nil {
			return nil, fmt.Errorf("emptying table %q: %w", t.Name, err)
		}
		removed[i].Deleted = int64(d.c.changes())
	}
	return removed, nil
}

// used returns the writers of batches with rows, by table.
func (p *pieces) used() iter.Seq2[int, *writer] {
	return func(yield func(int, *writer) bool) {
		for i, w := range p.writers {
			if w != nil && !yield(i, w) {
				return
			}
		}
	}
}

// Write implements [sink.RowWriter].
func (p *pieces) Write(rows [][]*fold.Row, together bool) (err error) {
	if together {
		if err := p.c.exec("PRAGMA defer_foreign_keys = ON"); err != nil {
			return err
		}
	}
	before, sent, table := slices.Clone(p.counts), p.sent, -1
	for i, w := range p.used() {
		w.piece = piece{rows: rows[i]}
	}
	write := func() (err error) {
		if table, err = p.rows(rows, together); err != nil {
			p.sent = sent
			copy(p.counts, before)
			for _, w := range p.used() {
				w.statements.forget()
			}
		}
		return err
	}
	if p.undoes {
		err = p.c.undoOnError(write)
	} else {
		err = write()
	}
	refused := errors.As(err, new(*sink.Refusal))
	switch {
	case p.c.autocommit() && (err == nil || refused):
		// RAISE(ROLLBACK) or ON CONFLICT ROLLBACK has rolled back the whole transaction.
		return fmt.Errorf("a trigger or constraint of table %q rolls back whole transactions, which weir does not support: %v", p.writers[max(0, table)].layout.table.Name, err)
	case p.c.autocommit(): // a disk error has
		return err
	case !p.undoes && refused:
		return sink.UnloggedError{Err: err}
	case together:
		if off := p.c.exec("PRAGMA defer_foreign_keys = OFF"); off != nil {
			return off
		}
	}
	return err
}

// rows writes rows up to the first that the database rejects, and returns its table with the error. Rows that are
// written together are deleted last: SQLite would give a new row the generated key of one that was deleted before, and
// keys that are checked at the end would find it there.
func (p *pieces) rows(rows [][]*fold.Row, together bool) (table int, err error) {
	several := 0
	for i, of := range rows {
		if several += min(1, len(of)); len(of) > 0 && len(p.writers[i].nested.descendants) > 0 {
			several++
		}
	}
	rows = slices.Clone(rows)
	sent := func(n int) {
		p.sent += n
		p.f.TellSent(p.sent)
	}
	for table := range rows {
		if len(rows[table]) > 0 {
			w := p.writers[table]
			if err := w.rows(p.ctx, rows[table], several > 1 || together, sent); err != nil {
				return table, p.refusal(err, table, w.nested.members == nil && w.piece.last != nil && !w.piece.last.Deleted)
			}
		}
		if err := p.explode(table, rows); err != nil {
			return table, err
		}
	}
	for table, w := range slices.Backward(p.writers) {
		if w == nil {
			continue
		}
		if err := p.sweep(table); err != nil {
			return table, err
		}
		if err := w.deleteDelayed(); err != nil {
			return table, p.refusal(err, table, false)
		}
	}
	if err := p.c.checkDeferred(); err != nil {
		return -1, p.refusal(err, -1, false)
	}
	return -1, nil
}

// refusal returns the Refusal of a row of a table, or an error that concerns more than the row. sets says that the row
// was to be inserted or updated.
func (p *pieces) refusal(err error, table int, sets bool) error {
	if !isRefusal(err) {
		return err
	}
	refused := &sink.Refusal{Err: err, Table: table}
	if e := (*Error)(nil); errors.As(err, &e) && e.Code == lib.SQLITE_CONSTRAINT_FOREIGNKEY {
		var only *writer
		if sets {
			only = p.writers[table]
		}
		if refused.Waits, err = p.linked(only); err != nil {
			return err
		}
	}
	return refused
}

// linked reports whether one of the tables has a foreign key to another of them. With only, it considers foreign keys
// that an insert, or an update that keeps the key, in that table can violate. SQLite does not say which one is
// violated: if the table has foreign keys to other tables too, messages may wait in vain.
func (p *pieces) linked(only *writer) (linked bool, err error) {
	writers := map[string]*writer{}
	for _, w := range p.used() {
		writers[lower(w.layout.table.Name)] = w
	}
	err = p.c.query(`SELECT l.name, f."table", f."to" FROM pragma_table_list l, pragma_foreign_key_list(l.name) f WHERE l.schema = 'main'`, func(s *stmt) error {
		of, to := writers[lower(s.text(0))], writers[lower(s.text(1))]
		linked = linked || of != nil && to != nil && (only == nil || of == only || to == only && !to.layout.isKey(s.text(2)))
		return nil
	})
	return linked, err
}
