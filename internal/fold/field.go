package fold

import "github.com/weirsync/weir/internal/feed"

// A field is what a folder knows about a field name.
type field struct {
	name string
	col  int32 // index of its column; -1: ignored
	key  int32 // index of its part of the key; -1: none
	// identifies: it is part of the key, or of the key of a row that it refers to.
	identifies bool
	holds      uint8 // a bit per kind: the column is known to hold it without widening
	hasColumn  bool  // one that messages cannot set, as a warning has said
	ignored    int64 // values without a column
}

const (
	none      = int32(-1)
	maxFields = 10000 // after this many names, all further names that are ignored share one field

	otherNames = "\x00other names" // no field has a NUL in its name
)

// A fieldSet has the fields of the messages so far, in the order of their first occurrence.
type fieldSet struct {
	names    *feed.Names
	all      []field
	byName   map[string]int32 // index into all
	byNumber []int32          // index into all, by the number of the name; -1 if unknown
	// spellings: a field has another spelling than its column, so two fields may have one column.
	spellings bool
}

// add adds a field, unless it has to share the one for other names.
func (s *fieldSet) add(fd field) (n int32, isNew bool) {
	if len(s.all) >= maxFields && fd.col < 0 && fd.key < 0 {
		fd.name = otherNames
		if n, ok := s.byName[fd.name]; ok {
			return n, false
		}
	}
	n = int32(len(s.all))
	s.all = append(s.all, fd)
	s.byName[fd.name] = n
	return n, true
}

// setNumber records the field of the name with a number.
func (s *fieldSet) setNumber(number, field int32) {
	for int(number) >= len(s.byNumber) {
		s.byNumber = append(s.byNumber, none)
	}
	s.byNumber[number] = field
}

// forget removes all but the first n fields.
func (s *fieldSet) forget(n int) {
	for _, fd := range s.all[n:] {
		delete(s.byName, fd.name)
	}
	s.all = s.all[:n]
	for i, h := range s.byNumber {
		if int(h) >= n {
			s.byNumber[i] = none
		}
	}
}

// checkSpellings returns an error if two fields of the change are one column.
func (f *Folder) checkSpellings() error {
	for i, h := range f.now.hits {
		fd := &f.fields.all[h]
		for _, before := range f.now.hits[:i] {
			if other := &f.fields.all[before]; fd.col >= 0 && other.col == fd.col {
				return sameColumn(other.name, fd.name)
			}
		}
	}
	return nil
}

// sameColumn returns the error of a line with a field that the database cannot tell from another one.
func sameColumn(column, field string) error {
	return feed.Errorf(feed.BadName, "the fields %q and %q are one column name to the database; to take both: columns: {%s: [%[1]s, %[2]s]} in a config file", column, field, column)
}
