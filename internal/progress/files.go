package progress

// Files is how far a run is with the files that it reads to their ends, and with others whose size is
// known. Sizes are raw bytes.
type Files struct {
	Number, Ended int
	Offset, Size  int64 // of all, those that have not begun included
	Before        int64 // of Offset, what runs before this one have read
}

// SetFiles names the files that a run will read to their ends, with their sizes.
func (p *Progress) SetFiles(sizes map[string]int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fileSizes, p.files = sizes, Files{Number: len(sizes)}
}

// endFile notes that a file was read to its end. p is locked.
func (p *Progress) endFile(l *Lane) {
	size, ok := p.fileSizes[l.state.Source]
	if !ok {
		return
	}
	delete(p.fileSizes, l.state.Source)
	p.files.Ended++
	p.files.Offset += size
	p.files.Size += size
	if l.state.Lines == 0 { // a run before has read it
		l.start = size
	}
	p.files.Before += min(l.start, size)
}

// ofFiles is how far the run is with its files. p is locked; lanes are those of a snapshot, which is
// to add what they say.
func (p *Progress) ofFiles() Files {
	f := p.files
	for source, size := range p.fileSizes {
		if p.lane(source) == nil {
			f.Size += size
		}
	}
	for _, l := range p.lanes {
		f.Before += l.start
	}
	return f
}
