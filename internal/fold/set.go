package fold

import (
	"fmt"
	"slices"

	"github.com/weirsync/weir/internal/feed"
)

// A Set is what one transaction writes: a batch for each table, and the lines that cannot
// be messages. One goroutine owns it at a time.
type Set struct {
	Batches []*Batch // parents before their children
	Rejects []Reject
	// Unsplit tells that all of a feed goes into the set, whatever the database would decide meanwhile.
	Unsplit bool
	// Whole tells that the set is all that is read.
	Whole bool

	rejectBytes int
	explodes    int    // the bytes that [Explosion.Explode] takes at most
	messages    int64  // numbers those that are added
	before      []undo // of addSeveral, as the next one
	needs       setNeeds
}

// NewSet returns an empty set of a number of tables.
func NewSet(tables int) *Set {
	s := &Set{Batches: make([]*Batch, tables)}
	for i := range s.Batches {
		s.Batches[i] = new(Batch)
	}
	return s
}

// Grow gives the set batches for this number of tables; those that are new come last.
func (s *Set) Grow(tables int) {
	for len(s.Batches) < tables {
		s.Batches = append(s.Batches, new(Batch))
	}
}

// Reject adds a line that cannot be a message.
func (s *Set) Reject(r Reject) {
	s.Rejects = append(s.Rejects, r)
	s.rejectBytes += r.Bytes()
}

// Rows returns the number of rows of all tables.
func (s *Set) Rows() (n int) {
	for _, b := range s.Batches {
		n += b.Rows()
	}
	return n
}

// Messages returns the number of messages of all tables.
func (s *Set) Messages() (n int64) {
	for _, b := range s.Batches {
		n += b.Messages
	}
	return n
}

// Bytes returns the memory that the set holds its content in, with that of the rows that
// [Explosion.Explode] makes of it.
func (s *Set) Bytes() int {
	n := s.rejectBytes + s.explodes
	for _, b := range s.Batches {
		n += b.Bytes()
	}
	return n
}

// RejectBytes returns the part of Bytes that rejects take.
func (s *Set) RejectBytes() int { return s.rejectBytes }

// Reset empties the set and keeps its memory. What was read from it is void.
func (s *Set) Reset() {
	for _, b := range s.Batches {
		b.Reset()
	}
	clear(s.Rejects)
	*s = Set{Batches: s.Batches, Rejects: s.Rejects[:0], Unsplit: s.Unsplit, Whole: s.Whole, before: s.before, needs: s.needs}
}

// A TableChange is a change of a row in one of several tables.
type TableChange struct {
	Table int // index into the batches of a set
	Change
}

// Folders fold messages into sets. There is one for each table.
type Folders []*Folder

// Link has all folders keep their messages if one of them does: what one table rejects of
// a message is taken back in the others.
func (f Folders) Link() {
	keep := slices.ContainsFunc(f, func(f *Folder) bool { return f.table.HasConstraints })
	for _, folder := range f {
		folder.table.HasConstraints = keep
	}
}

// Add merges the changes of one message into a set. An error of type [*feed.Error] means
// that a table, which is returned, does not take its change, and that the set is as it was. So it
// is with [ErrSplit]; any other error ends the run.
func (f Folders) Add(s *Set, changes []TableChange, at Place) (table int, err error) {
	if len(changes) > 0 && changes[0].Op == Truncate {
		return -1, f.truncate(s, changes, at)
	}
	if len(changes) != 1 || f[changes[0].Table].hasSets() {
		return f.addSeveral(s, changes, at)
	}
	c := &changes[0]
	b := s.Batches[c.Table]
	if err := f[c.Table].judge(b, &c.Change); err != nil {
		return c.Table, f.named(c.Table, err)
	}
	if f.splits(s, c) || f.outgrows(s, c.Table) {
		return c.Table, f[c.Table].reject(ErrSplit)
	}
	s.messages++
	f.apply(s, c, at, 0)
	return c.Table, nil
}

// AddOnly is Add of a message that is one change of the only table.
func (f Folders) AddOnly(s *Set, c *Change, at Place) error {
	if err := f[0].judge(s.Batches[0], c); err != nil {
		return err
	}
	if f.outgrows(s, 0) {
		return f[0].reject(ErrSplit)
	}
	f[0].add(s.Batches[0], c, at)
	return nil
}

// outgrows reports whether the columns of a change make the table one that may reject a row, and the set has messages that were not
// kept. From an empty set on, messages of all tables are.
func (f Folders) outgrows(s *Set, table int) bool {
	t := &f[table].table
	switch {
	case t.HasConstraints || s.Unsplit || !f[table].opt.Limits.MayOverflow(t):
		return false
	case s.Rows() > 0:
		return true
	}
	for _, folder := range f {
		folder.table.HasConstraints = true
	}
	return false
}

// apply merges the change that its table judged last into the set.
func (f Folders) apply(s *Set, c *TableChange, at Place, number int32) {
	folder, b, rows := f[c.Table], s.Batches[c.Table], family{batches: s.Batches}
	made := folder.place(b, &c.Change)
	if parent := folder.rules.parent; made && parent >= 0 {
		b.relations.link(f[parent].now.row) // which the change before it in the message was about
		rows.inheritDeletes(c.Table, folder.now.row)
	}
	folder.merge(b, &c.Change, made, &origin{at, s.messages, number})
	if c.Op.ends() {
		rows.deleteBelow(c.Table, folder.now.row, folder.now.message.version)
	}
}

// extent is how much a folder knew of its table before a message.
type extent struct{ fields, columns int }

// undo is a folder, and how much it knew before a change.
type undo struct {
	folder *Folder
	to     extent
}

// addSeveral is Add of a message for several rows: each table judges its changes before any
// of them is applied.
func (f Folders) addSeveral(s *Set, changes []TableChange, at Place) (table int, err error) {
	s.before, s.needs = s.before[:0], setNeeds{wider: s.needs.wider[:0]}
	for i := range changes {
		c := &changes[i]
		folder := f[c.Table]
		before := folder.extent()
		s.before = append(s.before, undo{folder, before})
		folder.now.judged = i
		table, err := c.Table, folder.judge(s.Batches[c.Table], &c.Change)
		if err == nil && folder.hasSets() {
			table, err = f.judgeSets(s, c)
		}
		if err == nil && (f.splits(s, c) || f.outgrows(s, c.Table)) {
			err = ErrSplit
		}
		if err != nil {
			for _, u := range slices.Backward(s.before) {
				u.folder.forget(u.to)
			}
			return table, f.named(table, err)
		}
		if c.Op == Delete && folder.extent() != before { // without values it makes no column
			folder.forget(before)
			folder.now.judged = -1
		}
	}
	if len(changes) > 0 {
		s.messages++
	}
	s.needs.meet(s)
	for i := range changes {
		c := &changes[i]
		folder, b := f[c.Table], s.Batches[c.Table]
		if folder.now.judged != i { // it does not know this change any more
			folder.now.judged = i
			if err := folder.judge(b, &c.Change); err != nil {
				return c.Table, err
			}
		}
		b.Linked = b.Linked || len(changes) > 1
		f.apply(s, c, at, int32(i))
	}
	return -1, nil
}

// named has an error of one of several tables name the table.
func (f Folders) named(table int, err error) error {
	bad, ok := err.(*feed.Error)
	if !ok || len(f) == 1 {
		return err
	}
	return feed.Errorf(bad.Reason, "%s", InTable(f[table].table.Name, bad.Detail))
}

// InTable is why one of several tables rejects a message.
func InTable(table, why string) string { return fmt.Sprintf("table %q: %s", table, why) }

// Seal gives the batches of a set the tables that their rows need.
func (f Folders) Seal(s *Set) {
	f.useReferred(s)
	for i, b := range s.Batches {
		if n := f[i].nested; n != nil && n.parent >= 0 {
			b.relations.used = s.Batches[n.parent].Used() && f[i].keyHasTypes()
		}
		f[i].Seal(b)
		f[i].sealChild(b)
		family{batches: s.Batches}.replaceBelow(i)
	}
}
