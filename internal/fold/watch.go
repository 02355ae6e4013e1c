package fold

import (
	"bytes"
	"fmt"
	"slices"
)

// A Watch notes how the messages of a table meet in the rows of a batch.
type Watch struct {
	Lanes   bool // whether messages of two lanes meet
	Columns bool // whether a message lacks a column that an earlier one of its row has set
	// Met is the first meeting that was noted; the next one is when it is nil again.
	Met *Meeting
}

// A Meeting is what a [Watch] notes.
type Meeting struct {
	Row         string // its key, for people
	First, Last int    // the lanes, as in [Place]; equal where Column was met
	Column      string // that the message lacks; "" where lanes were met
}

// Watch has a folder note what it is asked for; nil is nothing.
func (f *Folder) Watch(w *Watch) { f.watch = w }

// see notes how the change that was applied last meets earlier ones.
func (w *Watch) see(f *Folder, b *Batch, c *Change, at Place) {
	if c.Op > Replace || w.Met != nil || !w.Lanes && !w.Columns {
		return
	}
	b.lanes = append(b.lanes, make([]int32, max(0, len(b.rows)-len(b.lanes)))...)
	last := &b.lanes[f.row]
	first := int(*last) - 1
	*last = int32(at.Lane) + 1
	switch {
	case first < 0:
	case w.Lanes && first != at.Lane:
		w.Met = &Meeting{Row: f.rowText(c), First: first, Last: at.Lane}
	case w.Columns && c.Op == Upsert:
		if column := f.lacking(b, c); column != "" {
			w.Met = &Meeting{Row: f.rowText(c), First: at.Lane, Last: at.Lane, Column: column}
		}
	}
}

// lacking returns a column of the row at hand that its last change does not name; "" is none.
func (f *Folder) lacking(b *Batch, c *Change) string {
	r := &b.rows[f.row]
	more := -len(f.keys) // columns of the row that the change does not name
	for i := range r.cells {
		if b.Value(r, i) != nil {
			more++
		}
	}
	for _, h := range f.hits {
		if fd := &f.fields[h]; fd.col >= 0 && fd.key < 0 {
			more--
		}
	}
	for i := range r.cells {
		named := func(h int32) bool { return f.fields[h].col == int32(i) }
		if more > 0 && b.Value(r, i) != nil && !f.table.Columns[i].Key && !slices.ContainsFunc(f.hits, named) {
			return f.table.Columns[i].Name
		}
	}
	return ""
}

// maxRowText is how much of a row's key is shown.
const maxRowText = 100 // bytes

// rowText is the key of the change at hand, for people.
func (f *Folder) rowText(c *Change) string {
	var text []byte
	for part, i := range f.keys {
		if part > 0 {
			text = append(text, ", "...)
		}
		text = fmt.Appendf(text, "%s %s", f.opt.Key[part], bytes.TrimSpace(c.Fields[i].Value))
	}
	return string(bytes.ToValidUTF8(text[:min(len(text), maxRowText)], nil))
}
