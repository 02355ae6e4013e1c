package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
)

// An expiring table is one whose rows an expiry removes: those that are old, or those that belong
// to them. It is nil where there are none.
type expiring struct {
	t     *table
	where string // the condition of a row that goes with that of a key; ?1 is the time
	// versions is the query for the parts of its key as messages have it, "" where no versions are
	// kept; keyed makes that key.
	versions string
	keyed    schema.Table
}

// readBelow reads the tables whose rows go, but for that with the old rows.
func (x *expiry) readBelow(ctx context.Context) error {
	x.tables = nil
	for i := range x.Below {
		l := &x.Below[i]
		above, where := x.t, x.isOld()
		if l.Above >= 0 && x.tables[l.Above] != nil {
			above, where = x.tables[l.Above].t, x.tables[l.Above].where
		}
		t, err := x.readTable(ctx, l.Table, l.Key)
		missing := errors.As(err, new(sink.KeyError)) || err == nil && !t.Exists
		if err != nil && !missing {
			return err
		}
		if missing || l.Above >= 0 && x.tables[l.Above] == nil {
			x.tables = append(x.tables, nil)
			continue
		}
		names, to := make([]string, len(l.Columns)), make([]string, len(l.Columns))
		for part, name := range l.Columns {
			names[part] = t.quoted(name)
			to[part] = quote(above.Name) + "." + quote(l.To[part])
		}
		where = fmt.Sprintf("(%s) IN (SELECT %s FROM %s WHERE %s)", strings.Join(names, ", "), strings.Join(to, ", "), quote(above.Name), where)
		if err := x.add(ctx, t, where, l.Key, l.Owner); err != nil {
			return err
		}
	}
	return x.add(ctx, x.t, x.isOld(), x.Key, x.Owner)
}

// quoted is a column of the table, or of one above it, in SQL, as the index over its key has it.
func (t *table) quoted(name string) string {
	sql := quote(t.Name) + "." + quote(name)
	if at := caps.Find(&t.Table, name, 0); at >= 0 && t.Columns[at].Collation != "" {
		sql += " COLLATE " + t.Columns[at].Collation
	}
	return sql
}

// isOld is the condition that the row of a key is old.
func (x *expiry) isOld() string {
	sql := x.old
	for i, name := range x.names() {
		sql += " AND " + name + " = ?" + strconv.Itoa(i+2)
	}
	return sql
}

// add adds a table whose rows go.
func (x *expiry) add(ctx context.Context, t *table, where string, key []string, owner *schema.Lookup) (err error) {
	e := &expiring{t: t, where: where}
	x.tables = append(x.tables, e)
	if !t.Versioned {
		return nil
	}
	e.keyed, err = sink.KeyTable(&caps.Limits, &t.Table, key, owner, func(l *schema.Lookup) (*schema.Table, error) {
		in, err := x.readTable(ctx, l.Table, l.Key)
		return &in.Table, err
	})
	if err != nil {
		return err
	}
	var parts []string
	if owner != nil {
		f := &sink.Finder{Table: quote, Quote: quote}
		parts = f.Parts(owner, quote(t.Name)+"."+quote(key[0]))
	}
	for _, c := range e.keyed.Columns[len(parts):] {
		parts = append(parts, quote(t.Name)+"."+quote(c.Name))
	}
	e.versions = "SELECT " + strings.Join(parts, ", ") + " FROM " + quote(t.Name) + " WHERE " + where
	return nil
}

// deleteFrom deletes the rows of a table that go with that of a key, and what is kept of their
// versions, and counts them.
func (x *expiry) deleteFrom(e *expiring, k key) (gone int64, err error) {
	if e == nil {
		return 0, nil
	}
	var versions [][]byte
	if e.versions != "" {
		if versions, err = x.foldKeys(e, k); err != nil {
			return 0, err
		}
	}
	s, err := x.bound("DELETE FROM "+quote(e.t.Name)+" WHERE "+e.where, k)
	if err != nil {
		return 0, err
	}
	if err := s.run(); err != nil {
		return 0, err
	}
	gone = int64(x.c.changes())
	for _, key := range versions {
		s, err := x.c.prepareOne("DELETE FROM weir_versions WHERE tbl = ? AND key = ?")
		if err != nil {
			return 0, err
		}
		if err := s.runWith(lower(e.t.Name), blob(key)); err != nil {
			return 0, err
		}
	}
	return gone, nil
}

// foldKeys returns the keys, as the fold has them, of the rows of a table that go with that of a key.
func (x *expiry) foldKeys(e *expiring, k key) (keys [][]byte, err error) {
	s, err := x.bound(e.versions, k)
	if err != nil {
		return nil, err
	}
	defer s.reset()
	for {
		more, err := s.step()
		if err != nil || !more {
			return keys, err
		}
		found := make(key, len(e.keyed.Columns))
		for i := range found {
			found[i] = s.value(i)
		}
		keys = append(keys, found.folded(&e.keyed))
	}
}
