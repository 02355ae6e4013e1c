package sqlite

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"

	"github.com/weirsync/weir/internal/fold"
)

// This file is about reading what rows set before they are written: one goroutine reads the next rows
// while another has SQLite write, which then takes 0.77 of its CPU (distinct rows) or 0.63 (hot ones).
// BenchmarkSync would show the loss, where a second core is free.

const (
	// portions is how many there are: one is read while the other is written.
	portions = 2
	// portionRows and portionValues bound one. With 16 rows to wake the other goroutine takes as long as
	// is gained.
	portionRows   = 256
	portionValues = 8192
	// portionText is how much memory of C's a portion has for texts, in bytes. What it has no room for is
	// copied when it is bound.
	portionText = 64 << 10
)

// A portion is some rows of a batch and what they set.
type portion struct {
	given []*fold.Row
	rows  []*fold.Row // that are to be written: those that were given, or what they were resolved to
	vals  []value     // of all rows, by the batch's columns
	mem   uintptr     // C's memory, for texts; the connection frees it
	used  int         // bytes of it
	long  []int       // where rows stand that have a value of more than manyText bytes

	newer newerRows // where the batch has versions
	err   error     // of reading it
}

func (c *conn) addPortion() {
	c.portions = append(c.portions, &portion{mem: libc.Xmalloc(c.tls, portionText)})
}

// forget lets the memory of the batch go.
func (p *portion) forget() {
	clear(p.vals)
	p.given, p.rows, p.vals = nil, nil, p.vals[:0]
	p.newer.forget()
}

// perPortion is how many rows of the batch a portion has: as many as are written together, several times.
func (w *writer) perPortion() int {
	if w.versions != nil && !w.versions.together {
		return 1
	}
	n := min(portionRows, portionValues/len(w.b.Table.Columns))
	return max(1, n-n%manyRows, min(n, manyRows-1))
}

// of returns the values of a row, by its place in the portion.
func (p *portion) of(at int) []value {
	n := len(p.vals) / len(p.rows)
	return p.vals[at*n : (at+1)*n]
}

// read reads what the rows set. Where they have versions, they are resolved first.
func (p *portion) read(w *writer) {
	n := len(p.given)
	p.rows, p.used, p.long, p.err = p.given, 0, p.long[:0], nil
	if w.versions != nil {
		p.rows = p.newer.written[:n]
	}
	values := n * len(w.b.Table.Columns)
	p.vals = slices.Grow(p.vals[:0], values)[:values]
	for at := range p.given {
		w.b.PrefetchValues(p.given[at:])
		if w.versions != nil {
			if p.err = p.resolve(w, at); p.err != nil {
				return
			}
		}
		p.take(w, at)
	}
}

// take reads what a row sets.
func (p *portion) take(w *writer, at int) {
	vals := p.of(at)
	for i := range vals {
		w.takeTo(&vals[i], p.rows[at], i)
		switch v := &vals[i]; v.kind {
		case lib.SQLITE_TEXT:
			p.hold(v)
			fallthrough
		case lib.SQLITE_BLOB:
			if len(v.text) > manyText {
				p.long = append(p.long, at)
			}
		}
	}
}

// hold copies a text to memory of C's, where there is room, so that it need not be copied when it is
// bound.
func (p *portion) hold(v *value) {
	n := len(v.text)
	if n > portionText-p.used {
		return
	}
	at := p.mem + uintptr(p.used)
	copy(unsafe.Slice((*byte)(pointer(at)), n), v.text)
	v.int = int64(at)
	p.used += n
}

// ahead calls write with portions of rows, one after another, while the next are read; before that, it calls find
// with each. It returns when all are written, or with the first error.
func (w *writer) ahead(ctx context.Context, rows []*fold.Row, find, write func(*portion) error) error {
	n, count := w.perPortion(), 1
	if n > 1 && len(rows) > n {
		count = portions
	}
	for len(w.c.portions) < count {
		w.c.addPortion()
	}
	given, read := make(chan *portion, portions), make(chan *portion, portions)
	var reader sync.WaitGroup
	if count > 1 {
		reader.Go(func() {
			for p := range given {
				p.read(w)
				read <- p
			}
		})
	}
	own := w.vals
	defer func() {
		close(given)
		reader.Wait()
		w.vals = own
		for _, p := range w.c.portions {
			p.forget()
		}
	}()
	busy := 0
	give := func(p *portion) error {
		if len(rows) == 0 {
			return nil
		}
		p.given, rows = rows[:min(n, len(rows))], rows[min(n, len(rows)):]
		w.vals = own
		if err := find(p); err != nil {
			return err
		}
		if busy++; count > 1 {
			given <- p
			return nil
		}
		p.read(w)
		read <- p
		return nil
	}
	for _, p := range w.c.portions[:count] {
		if err := give(p); err != nil {
			return err
		}
	}
	for busy > 0 {
		p := <-read
		busy--
		if err := cmp.Or(ctx.Err(), p.err); err != nil {
			return err
		}
		if err := write(p); err != nil {
			return err
		}
		if err := give(p); err != nil {
			return err
		}
	}
	return nil
}
