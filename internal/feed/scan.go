package feed

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// Marks are characters that may precede a message on its line, and are skipped: byte order marks, as joined files
// have them, and the record separators of RFC 8142.
const Marks = "\ufeff\x1e"

// A Scanner splits lines into fields. It is not safe for concurrent use.
type Scanner struct {
	line   []byte
	fields []Field

	names      *Names
	followers  []follower // followers[0] is the start of a line
	byName     map[string]int32
	paths      int      // number of followers on paths
	unnumbered [][]byte // the last line's names without a number; not reused
}

// NewScanner returns a scanner that numbers names in n.
func NewScanner(n *Names) *Scanner {
	return &Scanner{names: n, followers: []follower{{}}, byName: map[string]int32{}}
}

// Scan returns the fields of one line (without its newline) in order, including repeated names. The result is valid
// until the next call. An error is always an [*Error].
func (s *Scanner) Scan(line []byte) ([]Field, error) {
	fields, err := s.Append(s.fields[:0], line)
	if err != nil {
		return nil, err
	}
	s.fields = fields
	return fields, nil
}

// Append is like [Scanner.Scan], but appends the line's fields to dst. After an error some fields may be in the
// memory after dst's end.
func (s *Scanner) Append(dst []Field, line []byte) ([]Field, error) {
	s.line, s.unnumbered = line, nil
	i := s.space(0)
	if i == len(line) {
		return dst, Errorf(Truncated, "the line is empty")
	}
	if line[i] != '{' {
		if rest := bytes.TrimLeft(line[i:], Marks+" \t\r\n"); len(rest) < len(line)-i {
			return s.Append(dst, rest)
		}
		return dst, s.noObject(i)
	}
	i = s.space(i + 1)
	if i < len(line) && line[i] == '}' {
		return dst, s.end(i + 1)
	}
	prev := int32(0)
	most := len(dst) + maxFields
	for {
		var f Field
		var err error
		at := s.followers[prev].next
		if e := &s.followers[at]; at > 0 && i+len(e.quoted) <= len(line) && string(line[i:i+len(e.quoted)]) == e.quoted {
			i += len(e.quoted)
			f.Name = e.number
		} else if at = s.other(prev, line[i:]); at > 0 {
			i += len(s.followers[at].quoted)
			f.Name = s.followers[at].number
		} else {
			start, end, escaped := i+1, 0, false
			if i, end, escaped, err = s.name(i); err != nil {
				return dst, err
			}
			f.Name, at = s.resolve(line[start:end:end], escaped)
			at = s.follow(prev, at)
		}
		prev = at
		// Most feeds have no white space here, and then a comparison is enough.
		if i < len(line) && line[i] <= ' ' {
			i = s.space(i)
		}
		start := i
		if i, f.Kind, err = s.value(i); err != nil {
			return dst, err
		}
		f.Value = line[start:i:i]
		if len(dst) == most {
			return dst, Errorf(TooLong, "more than %d fields", maxFields)
		}
		dst = append(dst, f)
		if i < len(line) && line[i] <= ' ' {
			i = s.space(i)
		}
		if i < len(line) && line[i] == '}' {
			return dst, s.end(i + 1)
		}
		if i >= len(line) || line[i] != ',' {
			return dst, s.unexpected(i, "',' or '}'")
		}
		i++
		if i < len(line) && line[i] <= ' ' {
			i = s.space(i)
		}
	}
}

// noObject returns the error for a line that has something other than an object at i.
func (s *Scanner) noObject(i int) error {
	end, _, err := s.value(i)
	if err == nil {
		err = s.end(end)
	}
	if err == nil {
		err = Errorf(NotObject, "not an object but %s", article(s.line[i]))
	}
	return err
}

// space returns the index of the first byte at or after i that is not white space.
func (s *Scanner) space(i int) int {
	for i < len(s.line) {
		switch s.line[i] {
		case ' ', '\t', '\r', '\n':
			i++
		default:
			return i
		}
	}
	return i
}

func (s *Scanner) end(i int) error {
	if i = s.space(i); i < len(s.line) {
		return s.trailing(i)
	}
	return nil
}

// value checks the value at i, and returns the index after it and its kind.
func (s *Scanner) value(i int) (int, Kind, error) {
	if i >= len(s.line) {
		return i, Null, s.unexpected(i, "a value")
	}
	switch c := s.line[i]; c {
	case '"':
		j, _, err := s.string(i)
		return j, String, err
	case '{', '[':
		j, err := s.nested(i)
		return j, JSON, err
	case 't':
		return s.word(i, "true", Bool)
	case 'f':
		return s.word(i, "false", Bool)
	case 'n':
		return s.word(i, "null", Null)
	default:
		if c == '-' || isDigit(c) {
			return s.number(i)
		}
		return i, Null, s.unexpected(i, "a value")
	}
}

func (s *Scanner) word(i int, want string, k Kind) (int, Kind, error) {
	for j := range len(want) {
		if i+j >= len(s.line) || s.line[i+j] != want[j] {
			return i, k, s.unexpected(i+j, want)
		}
	}
	return i + len(want), k, nil
}

func (s *Scanner) number(i int) (int, Kind, error) {
	b, start, kind := s.line, i, Int
	if b[i] == '-' {
		i++
	}
	digits := func() bool {
		from := i
		for i < len(b) && isDigit(b[i]) {
			i++
		}
		return i > from
	}
	if i < len(b) && b[i] == '0' {
		i++
	} else if !digits() {
		return i, kind, s.unexpected(i, "a digit")
	}
	if i < len(b) && b[i] == '.' {
		i++
		kind = Number
		if !digits() {
			return i, kind, s.unexpected(i, "a digit")
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		i++
		kind = Number
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		if !digits() {
			return i, kind, s.unexpected(i, "a digit")
		}
	}
	if i-start > maxNumber {
		return i, kind, Errorf(TooLong, "number of %d characters at byte %d: at most %d", i-start, start, maxNumber)
	}
	return i, kind, nil
}

const (
	ones = 0x0101010101010101
	tops = 0x8080808080808080
)

// string checks the string whose opening quote is at i, and returns the index after its closing quote and whether it
// has escapes. It checks eight bytes at a time: byte by byte, scanning is about half as fast.
func (s *Scanner) string(i int) (int, bool, error) {
	b, start := s.line, i
	i++
	escaped, ascii := false, true
	for {
		for i+8 <= len(b) {
			x := binary.LittleEndian.Uint64(b[i:])
			q, e := x^(ones*'"'), x^(ones*'\\')
			// The lowest marked byte is the first quote, backslash, control character or non-ASCII byte.
			if m := ((q-ones)&^q | (e-ones)&^e | (x-ones*0x20)&^x | x) & tops; m != 0 {
				i += bits.TrailingZeros64(m) >> 3
				break
			}
			i += 8
		}
		if i >= len(b) {
			return i, escaped, s.unexpected(i, "the end of a string")
		}
		switch c := b[i]; {
		case c == '"':
			if !ascii && !utf8.Valid(b[start:i]) {
				return i, escaped, s.invalidUTF8(start, i)
			}
			return i + 1, escaped, nil
		case c == '\\':
			escaped = true
			n, err := s.escape(i)
			if err != nil {
				return i, escaped, err
			}
			i += n
		case c < ' ':
			return i, escaped, s.unexpected(i, "the end of a string")
		default:
			if c >= utf8.RuneSelf {
				ascii = false
			}
			i++
		}
	}
}

// escape checks the escape at i and returns its length. A surrogate pair is one escape.
func (s *Scanner) escape(i int) (int, error) {
	b := s.line
	if i+1 >= len(b) {
		return 0, s.unexpected(i+1, "an escape")
	}
	switch b[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2, nil
	case 'u':
		r, ok := hex4(b, i+2)
		if !ok && i+6 > len(b) {
			return 0, s.unexpected(len(b), "four hex digits")
		} else if !ok {
			return 0, s.unexpected(i+2, "four hex digits")
		}
		if r < 0xD800 || r > 0xDFFF {
			return 6, nil
		}
		if i+7 < len(b) && b[i+6] == '\\' && b[i+7] == 'u' {
			if lo, ok := hex4(b, i+8); ok && r < 0xDC00 && 0xDC00 <= lo && lo <= 0xDFFF {
				return 12, nil
			}
		}
		if rest := b[i+6:]; len(rest) < 6 && (len(rest) == 0 || rest[0] == '\\') && (len(rest) < 2 || rest[1] == 'u') {
			return 0, s.unexpected(len(b), "the end of a string")
		}
		return 0, Errorf(Surrogate, "lone surrogate %q at byte %d: no character has this number", b[i:i+6], i)
	}
	return 0, s.unexpected(i+1, "an escape")
}

func hex4(b []byte, i int) (r rune, ok bool) {
	if i+4 > len(b) {
		return 0, false
	}
	for _, c := range b[i : i+4] {
		switch {
		case isDigit(c):
			r = r<<4 | rune(c-'0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return r, true
}

// nested checks the object or array at i without recursion: a bit per level says which of the two is open.
func (s *Scanner) nested(i int) (int, error) {
	b := s.line
	var objects [maxDepth/64 + 1]uint64
	depth := 1 // the message itself
	var err error
	for {
		// A value starts here.
		if i = s.space(i); i < len(b) && (b[i] == '{' || b[i] == '[') {
			if depth++; depth > maxDepth {
				return i, Errorf(TooDeep, "nesting over %d levels at byte %d", maxDepth, i)
			}
			object := b[i] == '{'
			word, bit := depth>>6, uint64(1)<<(depth&63)
			if object {
				objects[word] |= bit
			} else {
				objects[word] &^= bit
			}
			i = s.space(i + 1)
			if i < len(b) && b[i] == closer(object) {
				depth--
				i++
			} else if object {
				if i, _, _, err = s.name(i); err != nil {
					return i, err
				}
				continue
			} else {
				continue
			}
		} else if i, _, err = s.value(i); err != nil {
			return i, err
		}
		// A value has ended: close the objects and arrays that end here.
		for {
			if depth == 1 {
				return i, nil
			}
			i = s.space(i)
			object := objects[depth>>6]&(1<<(depth&63)) != 0
			if i < len(b) && b[i] == closer(object) {
				depth--
				i++
				continue
			}
			if i >= len(b) || b[i] != ',' {
				return i, s.unexpected(i, "',' or '"+string(closer(object))+"'")
			}
			i++
			if object {
				if i, _, _, err = s.name(s.space(i)); err != nil {
					return i, err
				}
			}
			break
		}
	}
}

func closer(object bool) byte {
	if object {
		return '}'
	}
	return ']'
}

// name checks the name at i and its colon. It returns the index after the colon, the index of the name's closing
// quote, and whether the name has escapes.
func (s *Scanner) name(i int) (after, quote int, escaped bool, err error) {
	if i >= len(s.line) || s.line[i] != '"' {
		return i, i, false, s.unexpected(i, "a field name")
	}
	if i, escaped, err = s.string(i); err != nil {
		return i, i, escaped, err
	}
	quote = i - 1
	if i = s.space(i); i >= len(s.line) || s.line[i] != ':' {
		return i, quote, escaped, s.unexpected(i, "':'")
	}
	return i + 1, quote, escaped, nil
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func (s *Scanner) unexpected(i int, want string) error {
	if i >= len(s.line) {
		return Errorf(Truncated, "the line ends at byte %d where %s is due", len(s.line), want)
	}
	if c := s.line[i]; c >= utf8.RuneSelf {
		if _, n := utf8.DecodeRune(s.line[i:]); n == 1 {
			return Errorf(InvalidUTF8, "invalid UTF-8 at byte %d", i)
		}
	}
	r, _ := utf8.DecodeRune(s.line[i:])
	return Errorf(NotJSON, "not JSON: %q at byte %d where %s is due", r, i, want)
}

func (s *Scanner) trailing(i int) error {
	return Errorf(TrailingData, "trailing data at byte %d: must be one object per line (jq -c makes it so)", i)
}

func (s *Scanner) invalidUTF8(from, to int) error {
	for i := from; i < to; {
		_, n := utf8.DecodeRune(s.line[i:to])
		if n == 1 && s.line[i] >= utf8.RuneSelf {
			return Errorf(InvalidUTF8, "invalid UTF-8 at byte %d", i)
		}
		i += n
	}
	panic("feed: valid UTF-8 was called invalid")
}

func article(c byte) string {
	switch c {
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}
