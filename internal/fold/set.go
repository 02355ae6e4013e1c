package fold

import (
	"fmt"
	"slices"

	"github.com/weirsync/weir/internal/feed"
)

// A Set is what one transaction writes: a batch per table, and the lines that are not valid messages. One goroutine
// owns it at a time.
type Set struct {
	Batches []*Batch // parents before their children
	Rejects []Reject
	// Unsplit disables [ErrSplit]: nothing is written, so no set is split for the database.
	Unsplit bool
	// Whole reports whether the set holds everything that is read.
	Whole bool

	rejectBytes int
	explodes    int    // the most memory that [Explosion.Explode] needs
	messages    int64  // the number of messages added
	before      []undo // of addSeveral, reused
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

// Grow appends batches until the set has one for each of the tables.
func (s *Set) Grow(tables int) {
	for len(s.Batches) < tables {
		s.Batches = append(s.Batches, new(Batch))
	}
}

// Reject adds a line that is not a valid message.
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

// Bytes returns the memory that the content uses, including the rows that [Explosion.Explode] makes of it.
func (s *Set) Bytes() int {
	n := s.rejectBytes + s.explodes
	for _, b := range s.Batches {
		n += b.Bytes()
	}
	return n
}

// RejectBytes returns the part of Bytes that rejects use.
func (s *Set) RejectBytes() int { return s.rejectBytes }

// Reset empties the set and keeps its memory. Everything that was read from it becomes invalid.
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

// Folders fold messages into sets. There is one folder per table.
type Folders []*Folder

// Link makes all folders keep their messages if one of them does: if one table rejects a message, the others must
// undo it.
func (f Folders) Link() {
	if slices.ContainsFunc(f, func(f *Folder) bool { return f.table.HasConstraints }) {
		f.KeepMessages()
	}
}

// Add merges the changes of one message into a set. On an error of type [*feed.Error] the returned table rejects its
// change, and the set is unchanged. The set is also unchanged on [ErrSplit]; any other error ends the run.
func (f Folders) Add(s *Set, changes []TableChange, at Place) (table int, err error) {
	if len(changes) > 0 && changes[0].Op == Truncate {
		return -1, f.truncate(s, changes, at)
	}
	if len(changes) != 1 || f[changes[0].Table].hasSets() {
		return f.addSeveral(s, changes, at)
	}
	c := &changes[0]
	b := s.Batches[c.Table]
	if err := f[c.Table].check(b, &c.Change); err != nil {
		return c.Table, f.nameTable(c.Table, err)
	}
	if f.splits(s, c, &at) || f.outgrows(s, c.Table, &at) {
		return c.Table, f[c.Table].reject(ErrSplit)
	}
	s.messages++
	f.apply(s, c, at, 0)
	return c.Table, nil
}

// outgrows reports whether a change adds columns that may make the database reject a row, and the set has messages
// that were not kept. If the set is empty, messages of all tables are kept from now on.
func (f Folders) outgrows(s *Set, table int, at *Place) bool {
	t := &f[table].table
	switch {
	case t.HasConstraints || s.Unsplit || !f[table].opt.Limits.MayOverflow(t):
		return false
	case s.Rows() > 0:
		return at.Element <= 1
	}
	f.KeepMessages()
	return false
}

// KeepMessages makes all folders keep their messages, beginning with an empty set.
func (f Folders) KeepMessages() {
	for _, folder := range f {
		folder.table.HasConstraints = true
	}
}

// apply merges the change that its table checked last into the set.
func (f Folders) apply(s *Set, c *TableChange, at Place, number int32) {
	folder, b, rows := f[c.Table], s.Batches[c.Table], family{batches: s.Batches}
	made := folder.prepareRow(b, &c.Change)
	if parent := folder.rules.parent; made && parent >= 0 {
		b.relations.link(f[parent].now.row) // the message's previous change was for the parent row
	}
	folder.merge(b, &c.Change, made, &origin{at, s.messages, number})
	if c.Op.ends() {
		rows.deleteChildren(c.Table, folder.now.row)
	}
}

// extent is how much a folder knew about its table before a message.
type extent struct{ fields, columns int }

// undo is what a folder knew before a change.
type undo struct {
	folder *Folder
	to     extent
}

// addSeveral is Add for a message for several rows: all changes are checked before the first is applied.
func (f Folders) addSeveral(s *Set, changes []TableChange, at Place) (table int, err error) {
	s.before, s.needs = s.before[:0], setNeeds{widenings: s.needs.widenings[:0]}
	for i := range changes {
		c := &changes[i]
		folder := f[c.Table]
		before := folder.extent()
		s.before = append(s.before, undo{folder, before})
		folder.now.index = i
		table, err := c.Table, folder.check(s.Batches[c.Table], &c.Change)
		if err == nil && folder.hasSets() {
			table, err = f.checkSets(s, c)
		}
		if err == nil && (f.splits(s, c, &at) || f.outgrows(s, c.Table, &at)) {
			err = ErrSplit
		}
		if err != nil {
			for _, u := range slices.Backward(s.before) {
				u.folder.forget(u.to)
			}
			return table, f.nameTable(table, err)
		}
		if c.Op == Delete && folder.extent() != before { // a delete adds no columns
			folder.forget(before)
			folder.now.index = -1
		}
	}
	if len(changes) > 0 {
		s.messages++
	}
	s.needs.apply(s)
	for i := range changes {
		c := &changes[i]
		folder, b := f[c.Table], s.Batches[c.Table]
		if folder.now.index != i { // the folder checked another change since
			folder.now.index = i
			if err := folder.check(b, &c.Change); err != nil {
				return c.Table, err
			}
		}
		f.apply(s, c, at, int32(i))
	}
	return -1, nil
}

// nameTable adds the table's name to an error if there are several tables.
func (f Folders) nameTable(table int, err error) error {
	bad, ok := err.(*feed.Error)
	if !ok || len(f) == 1 {
		return err
	}
	return feed.Errorf(bad.Reason, "%s", InTable(f[table].table.Name, bad.Detail))
}

// InTable returns why one of several tables rejects a message.
func InTable(table, why string) string { return fmt.Sprintf("table %q: %s", table, why) }

// Seal sets the tables that the rows of the set's batches need.
func (f Folders) Seal(s *Set) {
	f.useReferred(s)
	for i, b := range s.Batches {
		if n := f[i].nested; n != nil && n.Parent >= 0 {
			b.relations.used = s.Batches[n.Parent].Used() && f[i].keyHasTypes()
		}
		f[i].Seal(b)
		f[i].sealChild(b)
		family{batches: s.Batches}.replaceChildren(i)
	}
}
