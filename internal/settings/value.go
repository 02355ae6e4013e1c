package settings

import (
	"encoding"
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirsync/weir/internal/feed"
)

// A Value is a field as text; it implements pflag.Value. If Set fails, the field is unchanged.
type Value struct {
	field
	v     reflect.Value
	given bool
}

// NewValue returns a value that sets *into, which has the default. The tags are those of [field], without a key.
func NewValue(into any, tags reflect.StructTag) *Value {
	v := reflect.ValueOf(into).Elem()
	return &Value{field: newField(reflect.StructField{Type: v.Type(), Tag: tags}), v: v}
}

// Set parses a text. The first text of a list replaces the default; later ones append.
func (v *Value) Set(text string) error {
	if !isList(v.v.Type()) {
		err := v.parse(text, v.v)
		v.given = v.given || err == nil
		return err
	}
	items, err := v.items(text)
	if err != nil {
		return err
	}
	list := reflect.MakeSlice(v.v.Type(), 0, len(items))
	if v.given && v.name != "source" && (v.none == "" || text != v.none) {
		list = reflect.AppendSlice(list, v.v)
	}
	var faults []error
	for _, item := range items {
		list, err = v.add(list, item)
		faults = append(faults, err)
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	v.v.Set(list)
	v.given = true
	return nil
}

// isList reports whether a value is a list of values that have texts.
func isList(t reflect.Type) bool { return t.Kind() == reflect.Slice && !isLeaf(t) }

func (f *field) items(text string) ([]string, error) {
	switch {
	case f.commas && text == f.none:
		return nil, nil
	case f.name == "source" && !IsKafka([]string{text}): // commas separate the brokers and topics of Kafka
		return strings.Split(text, ","), nil
	case !f.commas || text == "":
		return []string{text}, nil
	}
	items, err := csv.NewReader(strings.NewReader(text)).Read()
	if err != nil {
		return nil, errors.New("the quotes do not match: names are separated by commas, and one with a comma is in double quotes")
	}
	for _, item := range items[1:] {
		if strings.HasPrefix(item, " ") {
			return nil, fmt.Errorf("%q begins with a space: names are separated by commas alone", item)
		}
	}
	return items, nil
}

// add appends the value of a text to a list.
func (f *field) add(list reflect.Value, text string) (reflect.Value, error) {
	v := reflect.New(list.Type().Elem()).Elem()
	if err := f.parse(text, v); err != nil {
		return list, err
	}
	if names, ok := list.Interface().([]string); ok {
		switch {
		case text == "":
			return list, errors.New("must not be empty")
		case slices.Contains(names, text):
			return list, fmt.Errorf("%q is named twice", text)
		}
	}
	return reflect.Append(list, v), nil
}

func (v *Value) String() string {
	if !v.v.IsValid() { // a zero value that pflag made
		return ""
	}
	if unset, ok := v.tag.Lookup("unset"); ok && !v.given {
		return unset
	}
	switch {
	case !isList(v.v.Type()):
		return v.text(v.v)
	case v.none != "" && v.given && v.v.Len() == 0:
		return v.none
	}
	items := make([]string, v.v.Len())
	for i := range items {
		items[i] = v.text(v.v.Index(i))
	}
	return listText(items)
}

// listText returns the text of a list in the help.
func listText(items []string) string {
	var b strings.Builder
	w := csv.NewWriter(&b)
	_ = w.Write(items) // to memory
	w.Flush()
	return "[" + strings.TrimSuffix(b.String(), "\n") + "]"
}

// maxType is the length up to which the help has words between the flag and its description.
const maxType = 24

// Type returns the type of value in the help: its words if they are few, or a name.
func (v *Value) Type() string {
	words := strings.Join(v.words, "|")
	switch {
	case words != "" && len(words) <= maxType:
		return words
	case words != "":
		return "word"
	case isList(v.v.Type()) && v.commas:
		return "strings"
	case isList(v.v.Type()):
		return "stringArray"
	case v.v.Type() == reflect.TypeFor[time.Duration](), v.v.Kind() == reflect.Int64 && isLeaf(v.v.Type()), v.v.Kind() == reflect.Float64:
		return strings.ToLower(v.v.Type().Name())
	case isLeaf(v.v.Type()):
		return "string"
	case v.v.Kind() == reflect.Int64:
		return "int"
	}
	return v.v.Kind().String()
}

// Choices returns the words that the value accepts. nil: it accepts other values.
func (v *Value) Choices() []string { return v.words }

// parse parses the text of a value that is no list. If it fails, the value is unchanged.
func (f *field) parse(text string, into reflect.Value) error {
	_, mayBeUnset := f.tag.Lookup("unset")
	switch {
	case len(f.words) > 0 && !slices.Contains(f.words, text) && !(text == "" && mayBeUnset):
		return fmt.Errorf("%q must be %s%s", text, Either(f.words), feed.DidYouMean(text, f.words))
	case isLeaf(into.Type()) && text == "" && mayBeUnset:
		into.SetZero()
		return nil
	case isLeaf(into.Type()):
		v := reflect.New(into.Type())
		err := v.Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(text))
		if err == nil {
			into.Set(v.Elem())
		}
		return err
	case into.Type() == reflect.TypeFor[time.Duration]():
		d, err := time.Duration(0), error(nil)
		switch {
		case f.word == "" || text != f.word:
			d, err = ParseDuration(text)
		case text == forever:
			d = Forever
		}
		if err == nil {
			into.SetInt(int64(d))
		}
		return err
	}
	switch into.Kind() {
	case reflect.Bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%q is neither true nor false", text)
		}
		into.SetBool(b)
	case reflect.Int, reflect.Int64:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || strconv.FormatInt(n, 10) != text || into.OverflowInt(n) { // 010 could mean 8
			return fmt.Errorf("%q is not a whole number, such as 1000", text)
		}
		if n < int64(f.least) {
			return fmt.Errorf("%d must be at least %d", n, f.least)
		}
		into.SetInt(n)
	default:
		if text == "" && f.tag.Get("filled") != "" {
			return errors.New("must not be empty")
		}
		into.SetString(text)
	}
	return nil
}

// text returns the text that parse parses.
func (f *field) text(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case encoding.TextMarshaler:
		text, _ := x.MarshalText() // ours cannot fail
		return string(text)
	case time.Duration:
		if f.word != "" && (x == Forever || x == 0 && f.word != forever) {
			return f.word
		}
		return DurationText(x)
	}
	return fmt.Sprint(v.Interface())
}

// isLeaf reports whether a type parses its own text.
func isLeaf(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// Size is a number of bytes, written as 256MiB, 1.5GB or 4096.
type Size int64

// units are powers of 1024 and of 1000. A single letter is a power of 1024.
var units = []struct {
	name  string
	bytes int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1}}

var sizeText = regexp.MustCompile(sizePattern)

// UnmarshalText parses a size.
func (s *Size) UnmarshalText(b []byte) error {
	m := sizeText.FindStringSubmatch(string(b))
	if m == nil {
		return fmt.Errorf("%q is not a size, such as 64MiB, 1GB or a number of bytes", b)
	}
	base := 1024.0
	if m[3] == "" && m[4] != "" {
		base = 1000
	}
	n, _ := strconv.ParseFloat(m[1], 64) // digits
	if n *= math.Pow(base, float64(strings.Index("kmgt", strings.ToLower(m[2]))+len(m[2]))); n > math.MaxInt64/2 {
		return fmt.Errorf("%q is not a size, such as 64MiB, 1GB or a number of bytes", b)
	}
	*s = Size(n)
	return nil
}

// String uses the unit with the shortest number.
func (s Size) String() (best string) {
	for _, u := range units {
		if n := int64(s) / u.bytes; int64(s)%u.bytes == 0 && (n > 0 || u.bytes == 1) {
			if text := strconv.FormatInt(n, 10) + u.name; best == "" || len(text) < len(best) {
				best = text
			}
		}
	}
	return best
}

// MarshalText implements [encoding.TextMarshaler].
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Forever is the longest duration.
const Forever = time.Duration(math.MaxInt64)

const forever = "forever" // the word for it

// A Rate is a number per second.
type Rate float64

// UnmarshalText parses 150/s or 9000/m; "" is 0, no limit.
func (r *Rate) UnmarshalText(text []byte) error {
	if *r = 0; len(text) == 0 {
		return nil
	}
	n, per, _ := strings.Cut(string(text), "/")
	x, err := strconv.ParseFloat(n, 64)
	unit := map[string]time.Duration{"": time.Second, "s": time.Second, "m": time.Minute, "h": time.Hour}[per]
	if err != nil || x <= 0 || math.IsNaN(x) || math.IsInf(x, 0) || unit == 0 {
		return fmt.Errorf("%q must be a rate such as 150/s", text)
	}
	*r = Rate(x / unit.Seconds())
	return nil
}

// MarshalText returns the text that UnmarshalText parses.
func (r Rate) MarshalText() ([]byte, error) {
	if r == 0 {
		return nil, nil
	}
	return []byte(strconv.FormatFloat(float64(r), 'f', -1, 64) + "/s"), nil
}
