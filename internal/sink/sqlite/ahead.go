package sqlite

import (
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
	rows []*fold.Row
	vals []value // of all rows, by the batch's columns
	mem  uintptr // C's memory, for texts; the connection frees it
	used int     // bytes of it
}

func (c *conn) addPortion() {
	c.portions = append(c.portions, &portion{mem: libc.Xmalloc(c.tls, portionText)})
}

// forget lets the memory of the batch go.
func (p *portion) forget() {
	clear(p.vals)
	p.rows, p.vals = nil, p.vals[:0]
}

// perPortion is how many rows of the batch a portion has.
func (w *writer) perPortion() int {
	return max(1, min(portionRows, portionValues/len(w.b.Table.Columns)))
}

// of returns the values of a row, by its place in the portion.
func (p *portion) of(at int) []value {
	n := len(p.vals) / len(p.rows)
	return p.vals[at*n : (at+1)*n]
}

// read reads the first n rows.
func (p *portion) read(w *writer, rows []*fold.Row, n int) {
	columns := len(w.b.Table.Columns)
	p.rows, p.used = rows[:n], 0
	p.vals = slices.Grow(p.vals[:0], n*columns)[:n*columns]
	for at, r := range p.rows {
		w.b.PrefetchValues(rows[at:])
		vals := p.of(at)
		for i := range vals {
			if w.takeTo(&vals[i], r, i); vals[i].kind == lib.SQLITE_TEXT {
				p.hold(&vals[i])
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

// ahead calls write with portions of rows, one after another, while the next are read. It returns when
// all are written, or with write's first error.
func (w *writer) ahead(ctx context.Context, rows []*fold.Row, write func(*portion) error) error {
	n := w.perPortion()
	for len(w.c.portions) < min(portions, (len(rows)+n-1)/n) {
		w.c.addPortion()
	}
	free, read := make(chan *portion, portions), make(chan *portion, portions)
	for _, p := range w.c.portions {
		free <- p
	}
	var reader sync.WaitGroup
	reader.Go(func() {
		defer close(read)
		for len(rows) > 0 {
			p, more := <-free
			if !more {
				return
			}
			p.read(w, rows, min(n, len(rows)))
			rows = rows[len(p.rows):]
			read <- p
		}
	})
	own := w.vals
	defer func() {
		close(free)
		reader.Wait()
		w.vals = own
		for _, p := range w.c.portions {
			p.forget()
		}
	}()
	for p := range read {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := write(p); err != nil {
			return err
		}
		free <- p
	}
	return nil
}
