package sink

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirsync/weir/internal/schema"
)

// An Expiry says which rows of a table expire, and holds the position of the removal. One step removes at most
// ExpireRows rows, and reads at most ExpireWindow.
type Expiry struct {
	Table  string
	Key    []string       // the key's fields, as in the database
	Owner  *schema.Lookup // finds the first field, as [schema.Lower.Owner] does
	Of     []string       // columns: a row expires if each of them is NULL or before Before
	Before time.Time
	// Walk is set if steps scan the whole table in key order. After is then the last key scanned, in the driver's
	// format; nil: none.
	Walk  bool
	After any
	// Together is how many rows a driver tries to delete at once. The driver adapts it to what succeeds; 0: all.
	Together int
	// Below are the descendants of the table, parents before children: their rows are removed together with the rows
	// that they belong to.
	Below []schema.Lower
}

// Limits of a step. They are small because the feed waits for it.
const (
	ExpireRows   = 1000
	ExpireWindow = 10_000
	// ExpireTime is after how long a step stops early, if it can.
	ExpireTime = 100 * time.Millisecond
)

// Expired is the result of a step.
type Expired struct {
	Removed int64
	Below   []int64 // removed rows of descendants, by [Expiry.Below]; nil: none
	Kept    int64   // rows that the database refused to delete
	Why     string  // the reason for the last of them
	Done    bool    // no more rows to expire
	// Missing is a column that the table does not have, so no row can expire; "": none.
	Missing string
}

// Begin returns the columns of a table by which its rows expire. If the table does not exist with this key, no row can
// expire, and res says so.
func (e *Expiry) Begin(l *schema.Limits, t *schema.Table) (columns []*schema.Column, res Expired, err error) {
	switch {
	case !t.Exists:
		return nil, Expired{Done: true}, nil
	case len(e.Of) == 0:
		return nil, res, fmt.Errorf("no column is named that says when rows of table %q expire", t.Name)
	}
	for i, name := range e.Of {
		at := l.Find(t, name, i)
		if at < 0 {
			return nil, Expired{Done: true, Missing: name}, nil
		}
		c := &t.Columns[at]
		if !c.HoldsTime && c.Type != schema.Day {
			return nil, res, fmt.Errorf("column %q of table %q is %s: rows cannot expire by it", c.Name, t.Name, c.Declared())
		}
		columns = append(columns, c)
	}
	return columns, res, nil
}

// Lead returns the column to find old rows by, using an index. It is nil if there is none; the step then continues a
// walk in key order. indexed are the columns that indexes begin with.
func (e *Expiry) Lead(columns []*schema.Column, indexed []string) (lead *schema.Column) {
	for _, c := range columns {
		// Rows with NULL in the column are scanned, too.
		if !e.Walk && slices.Contains(indexed, c.Name) && (lead == nil || c.NotNull && !lead.NotNull) {
			lead = c
		}
	}
	e.Walk = lead == nil
	return lead
}

// Advance updates the expiry after a step. The step found old rows (found of them), and has handled the first done.
// row(i) returns the key of one of them. after is the last row that a walk has scanned; nil: none follows.
func Advance[K any](e *Expiry, res *Expired, found, done int, row func(int) K, after *K) {
	switch {
	case !e.Walk && (res.Kept > 0 || done > 0 && res.Removed == 0): // the index would find the same rows again
		e.Walk, res.Kept, res.Why = true, 0, ""
	case !e.Walk:
		res.Done = done == found && found < ExpireRows
	case done == found && after == nil:
		res.Done = true
	case done == found:
		e.After = *after
	case done > 0:
		e.After = row(done - 1)
	}
}

// CountBelow adds to res the rows of a descendant that were removed.
func (e *Expiry) CountBelow(res *Expired, below int, rows int64) {
	if rows > 0 && res.Below == nil {
		res.Below = make([]int64, len(e.Below))
	}
	if rows > 0 {
		res.Below[below] += rows
	}
}

// Reads returns the tables that a step needs: the expiring table, its descendants, and those that hold parts of their
// keys.
func (e *Expiry) Reads() []TableKey {
	tables, owners := []TableKey{{e.Table, e.Key}}, []*schema.Lookup{e.Owner}
	for i := range e.Below {
		l := &e.Below[i]
		tables, owners = append(tables, TableKey{l.Table, l.Key}), append(owners, l.Owner)
	}
	for _, l := range owners {
		for ; l != nil; l = l.Above {
			if !slices.ContainsFunc(tables, func(t TableKey) bool { return t.Name == l.Table }) {
				tables = append(tables, TableKey{l.Table, l.Key})
			}
		}
	}
	return tables
}

// An ExpirySQL provides a driver's SQL for an expiry. Tables are numbered as in [Expiry.Reads].
type ExpirySQL struct {
	Limits *schema.Limits
	Tables []*schema.Table
	Name   func(table int) string
	Quote  func(name string) string
	Column func(table, column int) string // of a row t, as the key's index compares it
	Type   func(table, column int) string // columns with different types are compared as texts
}

// An Aged table is the expiring table or a descendant of it.
type Aged struct {
	Name  string // quoted
	Where string // the condition for a row t to be removed
	// Key is SQL for the parts of a row t's key as in messages, from which Keyed makes the key as in the fold; nil: no
	// versions are kept.
	Key   []string
	Keyed schema.Table
}

// Aged returns the tables whose rows are removed, the expiring table first; nil for a table that does not exist. old is
// the condition for a row t to expire.
func (e *Expiry) Aged(x *ExpirySQL, old string) ([]*Aged, error) {
	aged := make([]*Aged, 1+len(e.Below))
	aged[0] = &Aged{Name: x.Name(0), Where: old}
	if err := e.keep(x, aged[0], 0, e.Key, e.Owner); err != nil {
		return nil, err
	}
	for i := range e.Below {
		l, n, to := &e.Below[i], i+1, e.Below[i].Above+1
		if aged[to] == nil || !x.Tables[n].Exists {
			continue
		}
		have, want := make([]string, len(l.Columns)), make([]string, len(l.Columns))
		for part := range l.Columns {
			at, is := x.Limits.Find(x.Tables[n], l.Columns[part], 0), x.Limits.Find(x.Tables[to], l.To[part], 0)
			if at < 0 || is < 0 {
				return nil, DroppedError{Table: x.Tables[n].Name, Column: l.Columns[part]}
			}
			have[part], want[part] = x.Column(n, at), x.Column(to, is)
			if x.Type(n, at) != x.Type(to, is) {
				have[part], want[part] = "CAST("+have[part]+" AS text)", "CAST("+want[part]+" AS text)"
			}
		}
		aged[n] = &Aged{Name: x.Name(n), Where: fmt.Sprintf("(%s) IN (SELECT %s FROM %s t WHERE %s)",
			strings.Join(have, ", "), strings.Join(want, ", "), aged[to].Name, aged[to].Where)}
		if err := e.keep(x, aged[n], n, l.Key, l.Owner); err != nil {
			return nil, err
		}
	}
	return aged, nil
}

// keep sets Key and Keyed, for removing the versions of the rows.
func (e *Expiry) keep(x *ExpirySQL, a *Aged, table int, key []string, owner *schema.Lookup) error {
	if !x.Tables[table].Versioned {
		return nil
	}
	add := func(from int, name string) error {
		t := x.Tables[from]
		at := x.Limits.Find(t, name, 0)
		if at < 0 {
			return DroppedError{Table: t.Name, Column: name}
		}
		a.Keyed.Columns, a.Keyed.Key = append(a.Keyed.Columns, t.Columns[at]), append(a.Keyed.Key, len(a.Keyed.Columns))
		if from == table {
			a.Key = append(a.Key, x.Column(table, at))
		}
		return nil
	}
	if owner != nil {
		at := func(name string) int {
			return slices.IndexFunc(e.Reads(), func(t TableKey) bool { return t.Name == name })
		}
		f := &Finder{Table: func(name string) string { return x.Name(at(name)) }, Quote: x.Quote}
		a.Key = f.Parts(owner, "t."+x.Quote(key[0]))
		for _, part := range owner.Parts() {
			if err := add(at(part.In.Table), part.Column); err != nil {
				return err
			}
		}
		key = key[1:]
	}
	order := func(name string) int { return x.Limits.Find(x.Tables[table], name, 0) }
	for _, name := range slices.SortedFunc(slices.Values(key), func(a, b string) int { return order(a) - order(b) }) {
		if err := add(table, name); err != nil {
			return err
		}
	}
	return nil
}
