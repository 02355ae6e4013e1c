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

// SkipFile notes that a run before has read a file to its end, so that this one does not open it.
func (p *Progress) SkipFile(source string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.files.Before += p.end(source)
}

// endFile notes that a file was read to its end. p is locked.
func (p *Progress) endFile(l *Lane) {
	size := p.end(l.state.Source)
	if l.state.Lines == 0 { // a run before has read it
		l.start = size
	}
	p.files.Before += min(l.start, size)
}

// end has a file be one of those that have ended, and returns its size; 0 where it was one. p is locked.
func (p *Progress) end(source string) int64 {
	size, ok := p.fileSizes[source]
	if ok {
		delete(p.fileSizes, source)
		p.files.Ended++
		p.files.Offset += size
		p.files.Size += size
	}
	return size
}

// ofFiles is how far the run is with its files. p is locked; lanes are those of a snapshot, which is
// to add what they say.
func (p *Progress) ofFiles() Files {
	f := p.files
	for _, size := range p.fileSizes {
		f.Size += size
	}
	for _, l := range p.lanes {
		f.Size -= p.fileSizes[l.state.Source]
	}
	return f
}
