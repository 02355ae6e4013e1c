package feed

import "bytes"

// A Walker steps through a scanned value: the value itself, then its members and elements, depth first. It allocates
// nothing.
//
//	w := feed.Walk(value)
//	for w.Next() {
//		// w.Depth, w.Name, w.Kind, w.Raw()
//	}
type Walker struct {
	// Depth is 0 for the value itself, 1 for its members or elements, and so on.
	Depth int
	// Name is the raw name of a member, between its quotes; nil for other values.
	Name []byte
	Kind Kind

	json       []byte
	start, end int // of the current value; of an object or array only its bracket, until Raw
	depth      int // at end
}

// Walk returns a walker positioned before a value.
func Walk(value []byte) Walker { return Walker{json: value} }

// Next steps to the next value and reports whether there is one. It steps into an object or array unless [Walker.Raw]
// has read it.
func (w *Walker) Next() bool {
	b, i := w.json, w.end
	w.Name = nil
	for ; i < len(b); i++ {
		switch c := b[i]; c {
		case ' ', '\t', '\r', '\n', ',', ':':
		case '}', ']':
			w.depth--
		case '"':
			end := stringEnd(b, i)
			next := end
			for next < len(b) && isSpace(b[next]) {
				next++
			}
			if next < len(b) && b[next] == ':' {
				w.Name = b[i+1 : end-1 : end-1]
				i = next
				continue
			}
			return w.at(i, end, String)
		case '{', '[':
			w.at(i, i+1, JSON)
			w.depth++
			return true
		case 't', 'n':
			return w.at(i, i+len("true"), KindOf(b[i:]))
		case 'f':
			return w.at(i, i+len("false"), Bool)
		default:
			end, k := i+1, Int
			for ; end < len(b) && !endsNumber[b[end]]; end++ {
				if !isDigit(b[end]) {
					k = Number
				}
			}
			return w.at(i, end, k)
		}
	}
	w.start, w.end = i, i
	return false
}

func (w *Walker) at(start, end int, k Kind) bool {
	w.start, w.end, w.Kind, w.Depth = start, end, k, w.depth
	return true
}

// Raw returns the raw JSON of the current value; for an object or array, all of it.
func (w *Walker) Raw() []byte {
	for w.depth > w.Depth { // the object or array is still open
		switch w.json[w.end] {
		case '"':
			w.end = stringEnd(w.json, w.end) - 1
		case '{', '[':
			w.depth++
		case '}', ']':
			w.depth--
		}
		w.end++
	}
	return w.json[w.start:w.end:w.end]
}

// Field returns the current value, without the number of a name.
func (w *Walker) Field() Field { return Field{Kind: w.Kind, Value: w.Raw()} }

// Member returns the last member of an object whose raw name is name; the zero Field if there is none.
func Member(object []byte, name string) (f Field) {
	w := Walk(object)
	for w.Next(); w.Next(); {
		if v := w.Field(); string(w.Name) == name {
			f = v
		}
	}
	return f
}

// Array reports whether the current value is an array.
func (w *Walker) Array() bool { return w.json[w.start] == '[' }

// Offset returns the index of the current value in the walked one.
func (w *Walker) Offset() int { return w.start }

// stringEnd returns the index after the closing quote of the string whose opening quote is at i.
func stringEnd(b []byte, i int) int {
	for from := i + 1; ; {
		end := from + bytes.IndexByte(b[from:], '"')
		slashes := 0
		for b[end-1-slashes] == '\\' {
			slashes++
		}
		if from = end + 1; slashes%2 == 0 {
			return from
		}
	}
}

var endsNumber = [256]bool{' ': true, '\t': true, '\r': true, '\n': true, ',': true, '}': true, ']': true}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }
