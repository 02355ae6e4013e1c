package sink

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirsync/weir/internal/schema"
)

// An Expiry says which rows of a table expire, and holds the position of the removal. One step
// removes at most ExpireRows of them, and reads at most ExpireWindow.
type Expiry struct {
	Table  string
	Key    []string       // its fields, as the database has them
	Owner  *schema.Lookup // finds the first of them, as [schema.Lower.Owner] does
	Of     []string       // columns: in each of them the row has NULL, or a time before Before
	Before time.Time
	// Walk tells that steps look at all rows in the order of the key, and After is the key of the last one that they
	// looked at, as the driver has it; nil: none.
	Walk  bool
	After any
	// Together is how many rows a driver tries to remove at once, which it sets as the database lets them go; 0: all.
	Together int
	// Below are the tables whose rows belong to those of the table, parents before their children:
	// they go with these.
	Below []schema.Lower
}

// Bounds of a step. The feed waits for it, so they are small.
const (
	ExpireRows   = 1000
	ExpireWindow = 10_000
	// ExpireTime is after how long a step stops before its other rows, if it can.
	ExpireTime = 100 * time.Millisecond
)

// Expired is what a step did.
type Expired struct {
	Removed int64
	Below   []int64 // rows of other tables that went with them, by [Expiry.Below]; nil: none
	Kept    int64   // rows that the database does not let go
	Why     string  // of the last of them
	Done    bool    // no other row is old
	// Missing is a column that the table does not have, so that no row can be old; "" for none.
	Missing string
}

// Begin returns the columns of a table by which its rows expire. One that does not exist with the key has no old rows,
// as Expired then says.
func (e *Expiry) Begin(l *schema.Limits, t *schema.Table) (columns []*schema.Column, res Expired, err error) {
	switch {
	case !t.Exists:
		return nil, Expired{Done: true}, nil
	case len(e.Of) == 0:
		return nil, res, fmt.Errorf("no column is named by which rows of table %q expire", t.Name)
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

// Lead returns the column that finds old rows by an index; nil if none does, and the step is one of a walk in the
// order of the key. indexed are the columns that an index begins with.
func (e *Expiry) Lead(columns []*schema.Column, indexed []string) (lead *schema.Column) {
	for _, c := range columns {
		// The rows that have NULL in it are looked through, too.
		if !e.Walk && slices.Contains(indexed, c.Name) && (lead == nil || c.NotNull && !lead.NotNull) {
			lead = c
		}
	}
	e.Walk = lead == nil
	return lead
}

// Advance moves the expiry on by a step that dealt with the first done of the old rows that it found. row is the key of
// one of them, and after that of the last row that a walk looked at, nil if none follows.
func Advance[K any](e *Expiry, res *Expired, found, done int, row func(int) K, after *K) {
	switch {
	case !e.Walk && (res.Kept > 0 || done > 0 && res.Removed == 0): // the index would find them again and again
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

// CountBelow adds to res the rows of a dependent table that were removed with the expired ones.
func (e *Expiry) CountBelow(res *Expired, below int, rows int64) {
	if rows > 0 && res.Below == nil {
		res.Below = make([]int64, len(e.Below))
	}
	if rows > 0 {
		res.Below[below] += rows
	}
}

// Reads returns the tables that a step needs: that of the expiry, those below it, and those that have parts of the keys
// of their rows.
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

// An ExpirySQL is how a driver writes what an expiry removes. Tables are counted as [Expiry.Reads] has them.
type ExpirySQL struct {
	Limits *schema.Limits
	Tables []*schema.Table
	Name   func(table int) string
	Quote  func(name string) string
	Column func(table, column int) string // of a row t, as the index over a key compares it
	Type   func(table, column int) string // columns that differ in it are compared as texts
}

// An Aged table is one whose rows an expiry removes: those that are old, or those that belong to them.
type Aged struct {
	Name  string // in SQL
	Where string // the condition of a row t that goes
	// Key are SQL for the parts of the key of a row t as messages have it, of which Keyed makes that of the fold; nil: no
	// versions are kept.
	Key   []string
	Keyed schema.Table
}

// Aged returns the tables whose rows go, that of the expiry first, and nil for one that does not exist. old is the
// condition of its rows t.
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

// keep finds the keys by which the versions of a table's rows are kept.
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
