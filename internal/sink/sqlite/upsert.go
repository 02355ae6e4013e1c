package sqlite

import (
	"math"
	"slices"
	"strings"

	lib "modernc.org/sqlite/lib"

	"github.com/weirsync/weir/internal/schema"
)

// This file is about rows that one statement writes, which nobody looks up before.

// An upsert inserts rows, or sets the columns that have a value where one of them differs.
// BenchmarkFlush/sqlite/update would show its loss.
type upsert struct {
	*stmt
	columns []int // that it inserts
	serial  int   // the column of the rowid where that is not the key; -1: none
}

// prepareUpsert prepares to write rows without a look at the table first. The conflict has no target:
// the table has no unique index but the key's, of which there may be several, and no rowid is given.
func (w *writer) prepareUpsert() (err error) {
	u := &upsert{serial: -1}
	var set, differ []string
	for _, i := range w.columns {
		c, name := &w.b.Table.Columns[i], w.names[i]
		if w.table.Columns[w.cols[i]].Serial && !c.Key {
			u.serial = i
			continue
		}
		u.columns = append(u.columns, i)
		switch {
		case c.Key:
		case c.Stamp == schema.UpdateStamp:
			set = append(set, name+" = excluded."+name)
		case c.Stamp == schema.NoStamp:
			set = append(set, name+" = coalesce(excluded."+name+", "+name+")")
			// To a column's collation texts may be equal that are not.
			differ = append(differ, "excluded."+name+" IS NOT NULL AND "+name+" COLLATE BINARY IS NOT excluded."+name)
		}
	}
	if len(differ) == 0 {
		return nil
	}
	var either []string
	for of := range slices.Chunk(differ, 100) { // SQLite nests expressions 1000 deep at most
		either = append(either, "("+strings.Join(of, " OR ")+")")
	}
	u.stmt, err = w.c.prepare(w.insertSQL(u.columns) + " ON CONFLICT DO UPDATE SET " + strings.Join(set, ", ") + " WHERE " + strings.Join(either, " OR "))
	w.ups = u
	return err
}

// A row that is unchanged costs 1.2 of the time with an upsert, and one that changes 0.75: so a change
// counts for three rows without one, and many of these make it likely that the next is one too.
const (
	changeWeighs = 3
	manyIdle     = 16
)

// learn notes whether the row at hand was unchanged.
func (w *writer) learn(unchanged bool) {
	if unchanged {
		w.idle = min(w.idle+1, 2*manyIdle)
	} else {
		w.idle = max(w.idle-changeWeighs, 0)
	}
}

// upserts reports whether the row at hand can be written by the upsert, which takes NULL for a column
// that is not named.
func (w *writer) upserts() bool {
	if w.ups == nil || w.idle >= w.maxIdle || w.ups.serial >= 0 && w.vals[w.ups.serial].kind != 0 {
		return false
	}
	for i := range w.vals {
		if w.vals[i].kind == lib.SQLITE_NULL {
			return false
		}
	}
	return true
}

// upsert writes the row at hand. Only an insert changes what SQLite has for the rowid of the last one.
func (w *writer) upsert() error {
	none := int64(math.MinInt64) // no row gets this rowid but by its key
	if w.vals[w.key[0]].int == none {
		none = 0
	}
	w.c.setLastRowid(none)
	w.stamp()
	if err := w.put(w.ups.stmt, w.ups.columns); err != nil {
		return err
	}
	w.fresh++
	switch {
	case w.c.lastRowid() != none:
		w.res.Inserted++
		return nil
	case w.c.changes() > 0:
		w.res.Updated++
	default:
		w.res.Unchanged++
	}
	w.fresh = 0
	return nil
}
