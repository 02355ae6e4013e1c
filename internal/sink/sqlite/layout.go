package sqlite

import (
	"fmt"
	"slices"
	"strings"

	lib "modernc.org/sqlite/lib"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/merge"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/sink"
)

// A layout maps the columns of a batch to its table's columns, and generates SQL for them. It does not change during a
// flush. A list of columns has indexes into the batch's table.
type layout struct {
	b       *fold.Batch
	table   schema.Table  // as in the database
	cols    []int32       // the table's column, by column of the batch; -1: none
	types   []schema.Type // of the written values, by column of the batch
	names   []string      // quoted column, by column of the batch; "": the table takes no value
	key     []int         // as in the database
	columns []int         // columns for which the table takes values
	stamps  []int         // columns that get the time of the flush
	merged  []int         // columns with merge functions
	have    []byte        // buffer for the database's value of one of these
	now     value         // the time of the flush
}

func newLayout(b *fold.Batch, table *schema.Table) *layout {
	n := len(b.Table.Columns)
	l := &layout{b: b, table: *table, have: []byte{}, cols: make([]int32, n), types: make([]schema.Type, n), names: make([]string, n), key: b.Table.StoredKey(),
		now: value{kind: lib.SQLITE_TEXT, text: []byte(b.Time.UTC().Format(stampFormat))}}
	for i := range b.Table.Columns {
		c := &b.Table.Columns[i]
		at := caps.Find(table, c.Name, i)
		l.cols[i], l.types[i] = int32(at), c.Type
		if at < 0 {
			continue
		}
		if c.Type != schema.Bytes { // a bytes column stores anything
			l.types[i] = table.Columns[at].Type
		}
		if table.Columns[at].Generated || c.Generated {
			continue
		}
		l.names[i], l.columns = quote(table.Columns[at].Name), append(l.columns, i)
		if c.Stamp != schema.NoStamp {
			l.stamps = append(l.stamps, i)
		}
		if c.Merge != merge.Last && !c.Key {
			l.merged = append(l.merged, i)
		}
	}
	return l
}

// read converts the values that a row sets.
func (l *layout) read(vals []value, r *fold.Row) {
	for i := range vals {
		l.readColumn(&vals[i], r, i)
	}
}

func (l *layout) readKey(vals []value, r *fold.Row) {
	for _, k := range l.b.Table.Key {
		l.readColumn(&vals[k], r, k)
	}
}

func (l *layout) readColumn(v *value, r *fold.Row, i int) {
	v.kind = 0 // clearing the rest costs more than leaving it
	if raw := l.b.Value(r, i); raw != nil && l.cols[i] >= 0 {
		*v = convert(raw, l.types[i])
	}
}

func (l *layout) stamp(vals []value) {
	for _, i := range l.stamps {
		vals[i] = l.now
	}
}

// unstamp undoes stamp.
func (l *layout) unstamp(vals []value) {
	for _, i := range l.stamps {
		vals[i].kind = 0
	}
}

// isKey reports whether a column of the table is part of its key.
func (l *layout) isKey(column string) bool {
	return slices.ContainsFunc(l.table.Key, func(k int) bool { return lower(l.table.Columns[k].Name) == lower(column) })
}

// bindKey binds a row's key, from parameter n+1 on.
func (l *layout) bindKey(s *stmt, n int, vals []value) error {
	for i, k := range l.key {
		if err := s.bindValue(n+i+1, &vals[k]); err != nil {
			return err
		}
	}
	return nil
}

// lookUp runs a query by key, and reports whether there is a row.
func (l *layout) lookUp(s *stmt, vals []value) (bool, error) {
	if err := l.bindKey(s, 0, vals); err != nil {
		return false, err
	}
	return s.step()
}

// bindRow binds a row's values in columns, from parameter n+1 on. It does not bind missing values: clear has left NULL,
// and binding takes longer.
func (l *layout) bindRow(s *stmt, n int, columns []int, vals []value) error {
	for at, i := range columns {
		if vals[i].kind == 0 {
			continue
		}
		if err := s.bindValue(n+at+1, &vals[i]); err != nil {
			return err
		}
	}
	return nil
}

// where returns the condition on the key, with parameters from number n+1 on. The key's index decides which keys are
// equal; the column may have another collation.
func (l *layout) where(n int) string {
	parts := make([]string, len(l.key))
	for i, k := range l.key {
		parts[i] = fmt.Sprintf("%s = ?%d", l.names[k], n+i+1)
		if name := collationOf(&l.table.Columns[l.cols[k]]); name != "" {
			parts[i] += " COLLATE " + name
		}
	}
	return " WHERE " + strings.Join(parts, " AND ")
}

func (l *layout) selectSQL() string {
	list := slices.Clone(l.names)
	for i := range list {
		if list[i] == "" {
			list[i] = "NULL"
		}
	}
	return "SELECT " + strings.Join(list, ", ") + " FROM " + quote(l.table.Name) + l.where(0)
}

// insertSQL returns an INSERT of rows rows; rows must be one if there are no columns.
func (l *layout) insertSQL(columns []int, rows int) string {
	if len(columns) == 0 {
		return "INSERT INTO " + quote(l.table.Name) + " DEFAULT VALUES"
	}
	row := "(?" + strings.Repeat(", ?", len(columns)-1) + ")"
	return "INSERT INTO " + quote(l.table.Name) + " AS weir (" + l.list(columns) + ")\n  VALUES " + row + strings.Repeat(", "+row, rows-1)
}

// upsertSQL completes an INSERT: rows that the table has get these columns of the inserted rows, unless they have the
// same values. target is the key that may be taken; "": any. If sparse, NULL is a missing value.
func (l *layout) upsertSQL(insert, target string, set []int, sparse bool) string {
	var sets, differ []string
	for _, i := range set {
		name := l.names[i]
		to := "excluded." + name
		switch stamp := l.b.Table.Columns[i].Stamp; {
		case stamp == schema.InsertStamp:
			continue
		case stamp == schema.UpdateStamp:
		case sparse:
			differ = append(differ, to+" IS NOT NULL AND "+name+" COLLATE BINARY IS NOT "+to)
			to = "coalesce(" + to + ", " + name + ")"
		default: // to a column's collation, texts may be equal that are not
			differ = append(differ, name+" COLLATE BINARY IS NOT "+to)
		}
		sets = append(sets, name+" = "+to)
	}
	if len(differ) == 0 {
		return insert + "\nON CONFLICT DO NOTHING"
	}
	return insert + "\nON CONFLICT " + target + "DO UPDATE SET\n    " + strings.Join(sets, ",\n    ") + "\n  WHERE " + strings.Join(differ, "\n    OR ")
}

func (l *layout) updateSQL(columns []int) string {
	sets := make([]string, len(columns))
	for n, i := range columns {
		sets[n] = fmt.Sprintf("%s = ?%d", l.names[i], n+1)
	}
	return "UPDATE " + quote(l.table.Name) + " SET " + strings.Join(sets, ", ") + l.where(len(columns))
}

// target returns the key as an upsert's conflict target. Its index has the collations of the columns.
func (l *layout) target() string {
	parts := make([]string, len(l.key))
	for i, k := range l.key {
		if parts[i] = l.names[k]; collationOf(&l.table.Columns[l.cols[k]]) != "" {
			parts[i] += " COLLATE " + collationOf(&l.table.Columns[l.cols[k]])
		}
	}
	return "(" + strings.Join(parts, ", ") + ") "
}

// withoutKey returns the columns that are not part of the key.
func (l *layout) withoutKey(columns []int) []int {
	return slices.DeleteFunc(slices.Clone(columns), func(i int) bool { return l.b.Table.Columns[i].Key })
}

func (l *layout) list(columns []int) string {
	names := make([]string, len(columns))
	for n, i := range columns {
		names[n] = l.names[i]
	}
	return strings.Join(names, ", ")
}

// keySQL returns SQL for a row's key as in the database.
func (l *layout) keySQL() string { return l.list(l.key) }

// messageKeySQL returns SQL for a row's key as in messages.
func (l *layout) messageKeySQL() string {
	t := &l.b.Table
	owner := t.Owner()
	var hidden []string
	if owner != nil {
		hidden = l.finder().Parts(owner.To, quote(l.table.Name)+"."+l.names[owner.Column])
	}
	parts := make([]string, len(t.Key))
	for i, k := range t.Key {
		if parts[i] = l.names[k]; t.Columns[k].Hidden {
			parts[i] = hidden[slices.Index(owner.From, k)]
		}
	}
	return strings.Join(parts, ", ")
}

// finder generates conditions on keys as in messages. Parameters are numbered from 1.
func (l *layout) finder() *sink.Finder {
	return finder(func(part int) string {
		k := l.b.Table.Key[part]
		if c := &l.b.Table.Columns[k]; c.Hidden {
			return collationOf(c)
		}
		return collationOf(&l.table.Columns[l.cols[k]])
	})
}

// finder generates conditions on keys that are compared with these collations of their parts.
func finder(collation func(part int) string) *sink.Finder {
	return &sink.Finder{Table: quote, Quote: quote, Equal: func(_, column string, part int) string {
		sql := fmt.Sprintf("%s = ?%d", quote(column), part+1)
		if c := collation(part); c != "" {
			sql += " COLLATE " + c
		}
		return sql
	}}
}

// whereOf returns f's condition on the first n parts of a row's key as in messages.
func (l *layout) whereOf(f *sink.Finder, n int) string {
	var owner *schema.Lookup
	if ref := l.b.Table.Owner(); ref != nil {
		owner = ref.To
	}
	return " WHERE " + f.Where(l.table.Name, l.b.Table.KeyColumns(), owner, n)
}
