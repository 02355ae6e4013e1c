package fold

// Truncates reports whether some table loses its earlier rows.
func (s *Set) Truncates() bool {
	for _, b := range s.Batches {
		if b.Truncated != nil {
			return true
		}
	}
	return false
}

// truncate removes all rows of tables. Earlier messages are written first, in a set of their own, so a flush only
// needs to empty the tables before it writes rows. A set that is not split here marks its rows as deleted instead, and
// drops their messages.
func (f Folders) truncate(s *Set, changes []TableChange, at Place) error {
	if !s.Whole && at.Element <= 1 && s.Rows() > 0 {
		return ErrSplit
	}
	s.messages++
	for i := range changes {
		b := s.Batches[changes[i].Table]
		for n := range b.rows.all {
			b.rows.all[n].delete(&f[changes[i].Table].table)
		}
		b.log.reset()
		b.Messages++
		b.Truncated = &at
	}
	return nil
}
