package fold

// Truncates reports whether a table loses the rows that it had before the set.
func (s *Set) Truncates() bool {
	for _, b := range s.Batches {
		if b.Truncated != nil {
			return true
		}
	}
	return false
}

// truncate has tables lose all of their rows. What comes before is written before, by a set of its own:
// then a flush only has to empty the tables first. A set that is all that is read keeps the rows that
// it had, as deleted ones.
func (f Folders) truncate(s *Set, changes []TableChange, at Place) error {
	if !s.Whole && s.Rows() > 0 {
		return ErrSplit
	}
	s.messages++
	for i := range changes {
		b := s.Batches[changes[i].Table]
		for n := range b.rows.all {
			b.rows.all[n].delete(&f[changes[i].Table].table)
		}
		b.Messages++
		b.Truncated = &at
	}
	return nil
}
