package sink

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirsync/weir/internal/schema"
)

// An Expiry is which rows of a table are removed because they are old, and how far that has
// come. Each step removes at most ExpireRows of them and looks at no more than ExpireWindow.
type Expiry struct {
	Table  string
	Key    []string       // its fields, as the database has them
	Owner  *schema.Lookup // finds the first of them, as [schema.Lower.Owner] does
	Of     []string       // columns: in each of them the row has NULL, or a time before Before
	Before time.Time
	// After is the key of the last row that a step looked at, in the driver's own notation; nil
	// begins.
	After []string
	// Together is how many rows a driver tries to remove at once, which it sets as the database lets them go; 0: all.
	Together int
	// Below are the tables whose rows belong to those of the table, parents before their children:
	// they go with these.
	Below []schema.Lower
}

// How large a step is: so long does it hold up the feed.
const (
	ExpireRows   = 1000
	ExpireWindow = 10_000
	// ExpireTime is after how long a step stops before its other rows, where it can.
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

// Begin returns the columns of a table by which its rows expire. read is what reading it ended
// with; a table that is missing or has another key has no old rows, as Expired then says.
func (e *Expiry) Begin(l *schema.Limits, t *schema.Table, read error) (columns []*schema.Column, res Expired, err error) {
	switch {
	case errors.As(read, new(KeyError)) || read == nil && !t.Exists:
		return nil, Expired{Done: true}, nil
	case read != nil:
		return nil, res, read
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

// Lead returns which of the columns finds old rows by an index, -1 where none does or the step
// is one of a walk in the order of the key. indexed are the columns that an index begins with.
func (e *Expiry) Lead(columns []*schema.Column, indexed []string) int {
	lead := -1
	if e.After != nil {
		return lead
	}
	for i, c := range columns {
		// The rows that have NULL in it are looked through, too.
		if slices.Contains(indexed, c.Name) && (lead < 0 || c.NotNull && !columns[lead].NotNull) {
			lead = i
		}
	}
	return lead
}

// Found notes how far a step came that an index led to the old rows.
func (e *Expiry) Found(rows int, res *Expired) {
	if res.Kept > 0 { // they would be found again and again
		e.After, res.Kept, res.Why = []string{}, 0, ""
		return
	}
	res.Done = rows < ExpireRows
}

// Walked notes how far a step came in the order of the key: after is the last row that it looked
// at, nil where none follows.
func (e *Expiry) Walked(after []string, res *Expired) {
	e.After, res.Done = after, after == nil
}

// With counts the rows of another table that went with those that were removed.
func (e *Expiry) With(res *Expired, below int, rows int64) {
	if rows > 0 && res.Below == nil {
		res.Below = make([]int64, len(e.Below))
	}
	if rows > 0 {
		res.Below[below] += rows
	}
}

// KeyTable returns a table by whose key [fold.AppendKey] makes the key of a row as the fold has it,
// of the values of its columns. key and owner are as those of a [schema.Lower]; read returns a table
// that a lookup is for.
func KeyTable(l *schema.Limits, t *schema.Table, key []string, owner *schema.Lookup, read func(*schema.Lookup) (*schema.Table, error)) (keyed schema.Table, err error) {
	add := func(from *schema.Table, name string) error {
		at := l.Find(from, name, 0)
		if at < 0 {
			return DroppedError{Table: from.Name, Column: name}
		}
		keyed.Columns, keyed.Key = append(keyed.Columns, from.Columns[at]), append(keyed.Key, len(keyed.Columns))
		return nil
	}
	if owner != nil {
		for _, part := range owner.Parts() {
			in, err := read(part.In)
			if err == nil {
				err = add(in, part.Column)
			}
			if err != nil {
				return keyed, err
			}
		}
		key = key[1:]
	}
	order := func(name string) int { return l.Find(t, name, 0) }
	for _, name := range slices.SortedFunc(slices.Values(key), func(a, b string) int { return order(a) - order(b) }) {
		if err := add(t, name); err != nil {
			return keyed, err
		}
	}
	return keyed, nil
}
