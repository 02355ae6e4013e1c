package feed

import "bytes"

// A Line is a line of a feed as a scanner left it.
type Line struct {
	Text       []byte // without its newline
	Fields     []Field
	Unnumbered [][]byte // the names of the fields that have none in [Names]
	Err        error    // of the scan
	Null       bool     // it is JSON's null, which Err says is no message
	Blank      bool     // it holds nothing but white space, and is to be passed over
	Deletes    bool     // it removes its row, whatever it says
}

// Scan makes l hold the line text, whose fields it appends to fields.
func (l *Line) Scan(s *Scanner, fields []Field, text []byte) []Field {
	all, err := s.Append(fields, text)
	if *l = (Line{Text: text, Err: err}); err != nil {
		text = bytes.Trim(text, " \t\r\n")
		l.Blank, l.Null = len(text) == 0, string(text) == "null"
		return fields
	}
	l.Fields, l.Unnumbered = all[len(fields):], s.unnumbered
	return all
}

// Field returns the field whose name has a number, of several the last one; nil: there is none.
func (l *Line) Field(name int32) *Field {
	for i := len(l.Fields) - 1; i >= 0; i-- {
		if f := &l.Fields[i]; f.Name == name {
			return f
		}
	}
	return nil
}

// Get returns the text of the field whose name has a number, which may point into the line;
// ok is false where it is absent, null, an object or an array.
func (l *Line) Get(name int32) (text []byte, ok bool) {
	f := l.Field(name)
	if f == nil || f.Kind == Null || f.Kind == JSON {
		return nil, false
	}
	return Text(nil, f.Value, f.Kind), true
}
