package foldtest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Kind is the kind of a value.
type Kind int

// The kinds of values.
const (
	Null Kind = iota
	Bool
	Number
	String
	JSON // an object or an array
)

// A Value is the value of a field as written in the feed.
type Value struct {
	Kind Kind
	Text string // of a string: its characters; of others: their spelling
}

// asKey returns the value as part of a key: a number whose value is a 64-bit integer is that integer.
func (v Value) asKey() Value {
	if n, ok := new(big.Float).SetPrec(1000).SetString(v.Text); ok && v.Kind == Number && n.IsInt() {
		if i, accuracy := n.Int64(); accuracy == big.Exact {
			return Value{Number, strconv.FormatInt(i, 10)}
		}
	}
	return v
}

// A Field is a name and its value.
type Field struct {
	Name  string
	Value Value
}

var (
	loneSurrogate = regexp.MustCompile(`(?i)\\u(d[89a-f][0-9a-f]{2})`)
	errNoMessage  = errors.New("not one JSON object")
)

// Parse parses a line into its fields in order, including repeated names.
func Parse(line []byte) (fields []Field, err error) {
	if !utf8.Valid(line) {
		return nil, errors.New("invalid UTF-8")
	}
	if !json.Valid(line) {
		return nil, errNoMessage
	}
	d := json.NewDecoder(bytes.NewReader(line))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errNoMessage
	}
	if err := surrogates(string(line)); err != nil {
		return nil, err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, err
		}
		f := Field{Name: name.(string)}
		if f.Value, err = parseValue(raw); err != nil {
			return nil, err
		}
		fields = append(fields, f)
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errNoMessage
	}
	return fields, nil
}

// surrogates returns an error unless escaped surrogates come in pairs.
func surrogates(line string) error {
	line = strings.ReplaceAll(line, `\\`, "")
	for at := loneSurrogate.FindStringIndex(line); at != nil; at = loneSurrogate.FindStringIndex(line) {
		high, _ := strconv.ParseUint(line[at[0]+2:at[1]], 16, 32)
		line = line[at[1]:]
		next := loneSurrogate.FindStringIndex(line)
		if high >= 0xdc00 || next == nil || next[0] != 0 {
			return errors.New("half a surrogate pair")
		}
		if low, _ := strconv.ParseUint(line[2:6], 16, 32); low < 0xdc00 {
			return errors.New("half a surrogate pair")
		}
		line = line[6:]
	}
	return nil
}

func parseValue(raw []byte) (v Value, err error) {
	switch raw[0] {
	case 'n':
		return Value{}, nil
	case 't', 'f':
		return Value{Bool, string(raw)}, nil
	case '"':
		err = json.Unmarshal(raw, &v.Text)
		v.Kind = String
		return v, err
	case '{', '[':
		return Value{JSON, string(raw)}, nil
	}
	return Value{Number, string(raw)}, nil
}

// MustParse parses a JSON value.
func MustParse(text string) Value {
	v, err := parseValue([]byte(text))
	if err != nil {
		panic(err)
	}
	return v
}

// JSON returns the value as JSON.
func (v Value) JSON() string {
	switch v.Kind {
	case Null:
		return "null"
	case String:
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(v.Text); err != nil {
			panic(err)
		}
		return strings.TrimSuffix(b.String(), "\n")
	}
	return v.Text
}

// Is reports whether a text represents the value: a number or JSON may have any spelling.
func (v Value) Is(text string) bool {
	want, _ := v.Kind.plain(v.Text)
	have, ok := v.Kind.plain(text)
	return ok && want == have
}

// plain returns one text for all spellings of a value of the kind; ok is false if text is not of the kind.
func (k Kind) plain(text string) (string, bool) {
	switch k {
	case Number:
		return Decimal(text)
	case JSON:
		return Canonical(text)
	}
	return text, true
}

var numeral = regexp.MustCompile(`^([+-]?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?$`)

// Decimal returns one text for all spellings of a number; ok is false if text is not a number.
func Decimal(text string) (string, bool) {
	m := numeral.FindStringSubmatch(text)
	if m == nil {
		return "", false
	}
	exponent, _ := strconv.Atoi(m[4]) // no test exceeds an int
	digits := m[2] + m[3]
	exponent -= len(m[3])
	short := strings.TrimRight(digits, "0")
	exponent += len(digits) - len(short)
	short = strings.TrimLeft(short, "0")
	if short == "" {
		return "0", true
	}
	return fmt.Sprintf("%s%se%d", strings.TrimPrefix(m[1], "+"), short, exponent), true
}

// Compare compares versions: numbers, also in strings, come before times, and these before texts. Numbers are compared
// by value, times without a zone come before those with one, texts are compared byte by byte.
func Compare(a, b string) int {
	x, isX := Decimal(a)
	y, isY := Decimal(b)
	switch {
	case isX && isY:
		return compareDecimals(x, y)
	case isX:
		return -1
	case isY:
		return 1
	}
	s, isS := instant(a)
	t, isT := instant(b)
	switch {
	case isS && isT:
		return s.compare(t)
	case isS:
		return -1
	case isT:
		return 1
	}
	return strings.Compare(a, b)
}

var isTime = regexp.MustCompile(`^(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:)(\d\d)(?:\.(\d+))?([Zz]|[-+]\d\d:\d\d|)$`)

// A moment is a time by its second and the digits of a fraction.
type moment struct {
	zoned    bool
	at       time.Time
	fraction string
}

// instant reads an RFC 3339 time. A leap second is the second after it.
func instant(text string) (m moment, ok bool) {
	p := isTime.FindStringSubmatch(text)
	if p == nil || strings.HasPrefix(text, "0000") {
		return m, false
	}
	second, zone := p[3], strings.ToUpper(p[5])
	leap := second == "60"
	if leap {
		second = "59"
	}
	at, err := time.Parse("2006-01-02 15:04:05Z07:00", p[1]+" "+p[2]+second+cmp.Or(zone, "Z"))
	if leap {
		at = at.Add(time.Second)
	}
	return moment{zone != "", at, strings.TrimRight(p[4], "0")}, err == nil
}

func (m moment) compare(o moment) int {
	switch {
	case m.zoned == o.zoned:
		return cmp.Or(m.at.Compare(o.at), strings.Compare(m.fraction, o.fraction))
	case m.zoned:
		return 1
	}
	return -1
}

// compareDecimals compares two numbers in Decimal's spelling.
func compareDecimals(x, y string) int {
	sign := func(s string) int {
		switch {
		case s == "0":
			return 0
		case s[0] == '-':
			return -1
		}
		return 1
	}
	if sx, sy := sign(x), sign(y); sx != sy || sx == 0 {
		return sx - sy
	} else if sx < 0 {
		return compareDecimals(y[1:], x[1:])
	}
	dx, ex, _ := strings.Cut(x, "e")
	dy, ey, _ := strings.Cut(y, "e")
	nx, _ := strconv.Atoi(ex)
	ny, _ := strconv.Atoi(ey)
	if magnitude := (len(dx) + nx) - (len(dy) + ny); magnitude != 0 {
		return magnitude
	}
	return strings.Compare(dx, dy)
}

// Canonical returns one text for all spellings of a JSON value: the order of names, white space, escapes and the
// spelling of numbers do not matter.
func Canonical(text string) (string, bool) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil || d.More() {
		return "", false
	}
	var b strings.Builder
	canonical(&b, v)
	return b.String(), true
}

func canonical(b *strings.Builder, v any) {
	switch v := v.(type) {
	case map[string]any:
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			fmt.Fprintf(b, "{%q:", name)
			canonical(b, v[name])
		}
		b.WriteByte('}')
	case []any:
		b.WriteByte('[')
		for _, x := range v {
			canonical(b, x)
			b.WriteByte(',')
		}
		b.WriteByte(']')
	case json.Number:
		n, _ := Decimal(v.String())
		b.WriteString(n)
	case string:
		fmt.Fprintf(b, "%q", v)
	default:
		fmt.Fprint(b, v)
	}
}
