package feed

import (
	"bytes"
	"iter"
)

// A Line is a scanned line of a feed.
type Line struct {
	Text       []byte // without its newline and [Marks]
	Size       int    // in bytes in the source, without its newline
	Fields     []Field
	Unnumbered [][]byte // names of fields that have no number in [Names]
	Err        error    // of the scan
	Null       bool     // it is JSON null; Err says that this is no message
	Array      bool     // it is an array of objects, which are messages; Err says that the line is none
	Blank      bool     // it has only white space, and is to be skipped
	Deletes    bool     // it deletes its row, whatever its fields are
}

// Scan sets l to the scanned line text. It appends the line's fields to fields, and returns the result.
func (l *Line) Scan(s *Scanner, fields []Field, text []byte) []Field {
	all, err := s.Append(fields, text)
	if *l = (Line{Text: s.line, Size: len(text), Err: err}); err != nil {
		text = bytes.Trim(l.Text, " \t\r\n")
		l.Blank, l.Null = len(text) == 0, string(text) == "null"
		l.Array = err.(*Error).Reason == NotObject && text[0] == '[' && hasOnlyObjects(text)
		return fields
	}
	l.Fields, l.Unnumbered = all[len(fields):], s.unnumbered
	return all
}

// Field returns the last field whose name has a number; nil if there is none.
func (l *Line) Field(name int32) *Field {
	for i := len(l.Fields) - 1; i >= 0; i-- {
		if f := &l.Fields[i]; f.Name == name {
			return f
		}
	}
	return nil
}

// Get returns the text of the last field whose name has a number. The text may point into the line. ok is false if
// the field is absent, null, an object or an array.
func (l *Line) Get(name int32) (text []byte, ok bool) {
	f := l.Field(name)
	if f == nil || f.Kind == Null || f.Kind == JSON {
		return nil, false
	}
	return Text(nil, f.Value, f.Kind), true
}

// hasOnlyObjects reports whether all elements of an array are objects.
func hasOnlyObjects(array []byte) bool {
	w := Walk(array)
	w.Next()
	for w.Next() {
		if w.Kind != JSON || w.Array() {
			return false
		}
		w.Raw()
	}
	return true
}

// Messages returns the messages of a scanned line: itself or, if it is an Array, its elements. Each is valid until the
// next.
func (l *Line) Messages(s *Scanner) iter.Seq[*Line] {
	return func(yield func(*Line) bool) {
		if !l.Array {
			yield(l)
			return
		}
		var m Line
		w, fields := Walk(l.Text), []Field(nil)
		for w.Next(); w.Next(); {
			if fields = m.Scan(s, fields[:0], w.Raw()); !yield(&m) {
				return
			}
		}
	}
}
