package settings

import (
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A value parses text into a typed field of a [Spec]; it implements pflag.Value. If Set fails, the field is unchanged.
type value interface {
	Set(text string) error
	String() string
	Type() string // in the help
}

// A misfit is the error "TEXT: must be WHAT".
type misfit struct{ text, mustBe string }

func (m misfit) Error() string { return m.text + ": must be " + m.mustBe }

// Named prefixes the error of a value with the name of its setting or flag.
func Named(name string, err error) error {
	if _, ok := errors.AsType[misfit](err); ok {
		return fmt.Errorf("%s %w", name, err)
	}
	return fmt.Errorf("%s: %w", name, err)
}

// anyText is any text.
type anyText string

func (t *anyText) Set(s string) error { *t = anyText(s); return nil }
func (t *anyText) String() string     { return string(*t) }
func (t *anyText) Type() string       { return "string" }

// flag accepts true and false, and what else Go programs accept, such as 1 and f. A file may only have true and false,
// because 1 and f are not booleans in YAML.
type flag bool

func (b *flag) Set(s string) error {
	v, err := strconv.ParseBool(s)
	if err != nil {
		return fmt.Errorf("%q is neither true nor false", s)
	}
	*b = flag(v)
	return nil
}

// setYAML parses a value in a file.
func (b *flag) setYAML(s string) error {
	if s != "true" && s != "false" {
		return fmt.Errorf("%q is neither true nor false", s)
	}
	return b.Set(s)
}

func (b *flag) String() string { return strconv.FormatBool(bool(*b)) }
func (b *flag) Type() string   { return "bool" }

// A Whole is an integer of at least Least, in decimal. None is the text of an unset value; "": its digits.
type Whole[T int | int64] struct {
	Value *T
	None  string
	Least int
}

// Set parses a number. It rejects leading zeros, because 010 could mean 8.
func (w *Whole[T]) Set(s string) error {
	n, err := strconv.ParseInt(s, 10, 64)
	if err == nil && n < 0 {
		return fmt.Errorf("%q is not a whole number from 0, such as 1000", s)
	}
	if err != nil || strconv.FormatInt(n, 10) != s || int64(T(n)) != n {
		return fmt.Errorf("%q is not a whole number, such as 1000", s)
	}
	if n < int64(w.Least) {
		return misfit{s, "at least " + strconv.Itoa(w.Least)}
	}
	*w.Value, w.None = T(n), ""
	return nil
}

func (w *Whole[T]) String() string {
	if w.Value == nil || w.None != "" {
		return w.None
	}
	return strconv.FormatInt(int64(*w.Value), 10)
}

// Type returns the type of value in the help.
func (w *Whole[T]) Type() string { return "int" }

// Size is a number of bytes, written as 256MiB, 1.5GB or 4096.
type Size int64

// units are powers of 1024 and of 1000. A single letter is a power of 1024.
var units = []struct {
	name  string // in lower case
	shown string
	bytes int64
}{{"tib", "TiB", 1 << 40}, {"gib", "GiB", 1 << 30}, {"mib", "MiB", 1 << 20}, {"kib", "KiB", 1 << 10},
	{"tb", "TB", 1e12}, {"gb", "GB", 1e9}, {"mb", "MB", 1e6}, {"kb", "kB", 1e3},
	{"ti", "", 1 << 40}, {"gi", "", 1 << 30}, {"mi", "", 1 << 20}, {"ki", "", 1 << 10},
	{"t", "", 1 << 40}, {"g", "", 1 << 30}, {"m", "", 1 << 20}, {"k", "", 1 << 10}, {"b", "B", 1}}

// Set parses a size.
func (s *Size) Set(text string) error {
	number, unit := strings.ToLower(strings.TrimSpace(text)), int64(1)
	for _, u := range units {
		if n, ok := strings.CutSuffix(number, u.name); ok {
			number, unit = strings.TrimSpace(n), u.bytes
			break
		}
	}
	n, ok := new(big.Rat).SetString(number)
	if !ok || strings.Trim(number, "0123456789.") != "" || n.Mul(n, big.NewRat(unit, 1)).Cmp(big.NewRat(math.MaxInt64/2, 1)) > 0 {
		return fmt.Errorf("%q is not a size, such as 64MiB, 1GB or a number of bytes", text)
	}
	*s = Size(new(big.Int).Quo(n.Num(), n.Denom()).Int64())
	return nil
}

// String uses the unit with the shortest number.
func (s Size) String() string {
	best := strconv.FormatInt(int64(s), 10) + "B"
	for _, u := range units {
		if n := int64(s) / u.bytes; u.shown != "" && n > 0 && int64(s)%u.bytes == 0 {
			if text := strconv.FormatInt(n, 10) + u.shown; len(text) < len(best) {
				best = text
			}
		}
	}
	return best
}

// Type returns the type of value in the help.
func (s *Size) Type() string { return "size" }

// Forever is the longest duration.
const Forever = time.Duration(math.MaxInt64)

// A Duration may contain days, such as 7d or 1d12h. Word is a text for the duration Means.
type Duration struct {
	Value *time.Duration
	Word  string
	Means time.Duration
	Open  bool // not set: it prints as "", and a later step chooses the value
}

// Set parses a duration.
func (d *Duration) Set(text string) error {
	v, err := d.Means, error(nil)
	if text != d.Word || text == "" {
		v, err = ParseDuration(text)
	}
	if err != nil {
		return err
	}
	*d.Value, d.Open = v, false
	return nil
}

func (d *Duration) String() string {
	switch {
	case d.Value == nil || d.Open:
		return ""
	case d.Word != "" && *d.Value == d.Means:
		return d.Word
	}
	return DurationText(*d.Value)
}

// Type returns the type of value in the help.
func (d *Duration) Type() string { return "duration" }

// A rate is a number per second.
type rate float64

func (r *rate) Set(text string) (err error) {
	*(*float64)(r), err = ParseRate(text)
	return err
}

// ParseRate parses 150/s or 9000/m and returns the number per second; "" is 0.
func ParseRate(text string) (float64, error) {
	if text == "" {
		return 0, nil
	}
	n, per, _ := strings.Cut(text, "/")
	x, err := strconv.ParseFloat(n, 64)
	unit := map[string]time.Duration{"": time.Second, "s": time.Second, "m": time.Minute, "h": time.Hour}[per]
	if err != nil || x <= 0 || math.IsNaN(x) || math.IsInf(x, 0) || unit == 0 {
		return 0, misfit{text, "a rate such as 150/s"}
	}
	return x / unit.Seconds(), nil
}

func (r *rate) String() string {
	if *r == 0 {
		return ""
	}
	return strconv.FormatFloat(float64(*r), 'f', -1, 64) + "/s"
}

func (r *rate) Type() string { return "rate" }

// A Choice is one of several words.
type Choice[T ~string] struct {
	value  *T
	words  []T
	preset T
}

// NewChoice returns a choice that sets value, which has the default.
func NewChoice[T ~string](value *T, words ...T) *Choice[T] { return &Choice[T]{value, words, *value} }

// Set sets a word.
func (c *Choice[T]) Set(s string) error {
	if !slices.Contains(c.words, T(s)) && T(s) != c.preset {
		words := c.Choices()
		return misfit{strconv.Quote(s), Either(words) + DidYouMean(s, words)}
	}
	*c.value = T(s)
	return nil
}

func (c *Choice[T]) String() string { return string(*c.value) }

// Type is short, because the help puts it between the flag and its description.
func (c *Choice[T]) Type() string {
	words := strings.Join(c.Choices(), "|")
	if len(words) > maxType {
		words = words[:strings.LastIndexByte(words[:maxType], '|')+1] + "…"
	}
	return words
}

const maxType = 24 // characters

// Choices returns the words.
func (c *Choice[T]) Choices() []string {
	words := make([]string, len(c.words))
	for i, w := range c.words {
		words[i] = string(w)
	}
	return words
}

// A list is a list of strings. The first Set replaces the default; later ones append.
type list struct {
	value  *[]string
	commas bool // a text may have several, separated by commas
	set    bool
}

func (l *list) Set(s string) error {
	items := []string{s}
	if l.commas {
		if items = nil; s != "" {
			var err error
			if items, err = csv.NewReader(strings.NewReader(s)).Read(); err != nil {
				return errors.New("the quotes do not match: names are separated by commas, and one with a comma is in double quotes")
			}
		}
	}
	if !l.set {
		*l.value = []string{}
	}
	*l.value, l.set = append(*l.value, items...), true
	return nil
}

// replace sets all texts.
func (l *list) replace(items []string) { *l.value, l.set = items, true }

func (l *list) String() string {
	var b strings.Builder
	w := csv.NewWriter(&b)
	_ = w.Write(*l.value) // to memory
	w.Flush()
	return "[" + strings.TrimSuffix(b.String(), "\n") + "]"
}

func (l *list) Type() string {
	if l.commas {
		return "strings"
	}
	return "stringArray"
}

// A keyList has the fields of a key. The word none alone means no key; in a list it is a field.
type keyList struct{ list }

func (l *keyList) Set(s string) error {
	switch s {
	case NoKey:
		l.list.replace([]string{})
	case "":
		l.replace(nil)
	default:
		return l.list.Set(s)
	}
	return nil
}

// replace sets all fields. No fields become one empty field, to differ from none.
func (l *keyList) replace(items []string) {
	if len(items) == 0 {
		items = []string{""}
	}
	l.list.replace(items)
}

func (l *keyList) String() string {
	if l.set && len(*l.value) == 0 {
		return NoKey
	}
	return l.list.String()
}

// A sourceList has several sources. It does not split at commas, which separate brokers and topics in a Kafka source.
type sourceList struct{ list }

func (l *sourceList) Set(s string) error {
	if l.replace([]string{s}); !IsKafka(*l.value) {
		l.replace(strings.Split(s, ","))
	}
	return nil
}
