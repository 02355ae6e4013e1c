package status

// SetFiles sets the names and sizes of the files that a run will read to their ends.
func (p *Progress) SetFiles(sizes map[string]int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fileSizes, p.files = sizes, Files{Number: int64(len(sizes))}
}

// SkipFile records that an earlier run has read a file to its end, so it is not opened.
func (p *Progress) SkipFile(source string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.files.Before += p.end(source)
}

// endFile records that a file was read to its end. p must be locked.
func (p *Progress) endFile(l *Lane) {
	size := p.end(l.state.Source)
	if l.state.Lines == 0 { // an earlier run has read it
		l.start = size
	}
	p.files.Before += min(l.start, size)
}

// end moves a file to the ended ones and returns its size; 0 if it had ended before. p must be locked.
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

// ofFiles returns the progress with the ended files. p must be locked. The caller adds the open lanes.
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
