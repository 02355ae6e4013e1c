package mapping

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ParsePath reads a path: a.b, "x.y".z, a[0], . (the value itself), $ or $.a (from the
// message), ^.a (from the parent element).
func ParsePath(text string) (Path, error) {
	if !utf8.ValidString(text) {
		return Path{}, fmt.Errorf("path %q is not UTF-8", text)
	}
	p := Path{Base: RowBase, Text: text}
	if text == "." {
		return p, nil
	}
	rest := text
	if base := map[string]Base{"$": MessageBase, "^": ParentBase}[rest[:min(1, len(rest))]]; base != NoBase {
		p.Base, rest = base, rest[1:]
		if rest == "" {
			return p, nil
		}
		if rest[0] != '.' && rest[0] != '[' {
			return Path{}, fmt.Errorf("path %s: a name that begins with %s needs double quotes", text, text[:1])
		}
		rest = strings.TrimPrefix(rest, ".")
	}
	for {
		step, after, err := cutStep(rest)
		if err != nil {
			return Path{}, fmt.Errorf("path %q: %w", text, err)
		}
		p.Steps = append(p.Steps, step)
		if after == "" {
			return p, nil
		}
		switch after[0] {
		case '.':
			rest = after[1:]
		case '[':
			rest = after
		default:
			return Path{}, fmt.Errorf("path %q: a dot is missing before %q", text, after)
		}
	}
}

// cutStep reads the first step of a path.
func cutStep(text string) (step Step, rest string, err error) {
	switch {
	case text == "" || text[0] == '.':
		return step, "", errors.New("a name is empty")
	case text[0] == '[':
		digits, rest, ok := strings.Cut(text[1:], "]")
		n, err := strconv.ParseUint(digits, 10, 31)
		if !ok || err != nil {
			return step, "", errors.New("an index is a whole number in brackets, as in items[0]")
		}
		return Step{Index: int(n)}, rest, nil
	case text[0] == '"':
		d := json.NewDecoder(strings.NewReader(text))
		step.Index = -1
		if err := d.Decode(&step.Name); err != nil {
			return step, "", errors.New("the name in double quotes is not a JSON string")
		}
		return step, text[d.InputOffset():], nil
	}
	end := strings.IndexFunc(text, func(r rune) bool {
		return strings.ContainsRune(`.[]"`, r) || unicode.IsSpace(r) || unicode.IsControl(r)
	})
	if end < 0 {
		end = len(text)
	}
	if end < len(text) && text[end] != '.' && text[end] != '[' {
		return step, "", fmt.Errorf("a name with %q in it needs double quotes", []rune(text[end:])[0])
	}
	return Step{Name: text[:end], Index: -1}, text[end:], nil
}

// FieldPath is the path of the member of that name, whatever is in the name.
func FieldPath(name string) Path {
	p := Path{Base: RowBase, Steps: []Step{{Name: name, Index: -1}}}
	p.Text = p.String()
	return p
}

// String is the path as [ParsePath] reads it, in one spelling.
func (p Path) String() string {
	if p.IsEnvelopeVersion() {
		return p.Text
	}
	var b strings.Builder
	b.WriteString(map[Base]string{MessageBase: "$", ParentBase: "^"}[p.Base])
	if b.Len() == 0 && len(p.Steps) == 0 && p.Base == RowBase {
		return "."
	}
	for _, s := range p.Steps {
		if s.Index >= 0 {
			fmt.Fprintf(&b, "[%d]", s.Index)
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		if plain, err := ParsePath(s.Name); err == nil && slices.Equal(plain.Steps, []Step{s}) {
			b.WriteString(s.Name)
		} else {
			b.Write(quoted(s.Name))
		}
	}
	return b.String()
}

// quoted is a JSON string.
func quoted(s string) []byte {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // of a string it cannot fail
	return []byte(strings.TrimSuffix(b.String(), "\n"))
}

// ParseSource reads a column's source: PATH, PATH as TYPE, as TYPE or nothing; the last two
// read the field that has the column's name.
func ParseSource(text, column string) (s Source, err error) {
	path, typ, as := cutAs(strings.TrimSpace(text))
	if s.From = FieldPath(column); path != "" {
		if s.From, err = ParsePath(path); err != nil {
			return Source{}, err
		}
	}
	if as {
		if s.As, err = ParseType(typ); err != nil {
			return Source{}, err
		}
	}
	return s, nil
}

// cutAs splits PATH as TYPE, where each part may be missing. A field may be called as.
func cutAs(text string) (path, typ string, ok bool) {
	if rest, after := strings.CutPrefix(text, "as "); after && !strings.HasPrefix(strings.TrimSpace(rest)+" ", "as ") {
		return "", strings.TrimSpace(rest), true
	}
	quotes := false
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\' && quotes:
			i++
		case text[i] == '"':
			quotes = !quotes
		case !quotes && i > 0 && strings.HasPrefix(text[i:], " as "):
			return strings.TrimSpace(text[:i]), strings.TrimSpace(text[i+len(" as "):]), true
		}
	}
	return text, "", false
}

// TypeNames are the types by name.
var TypeNames = []TypeKind{Auto, Text, Integer, Real, Numeric, Base64Number, Boolean, JSON, JSONText, Timestamp, TimestampUTC, TimestampMs, TimestampUs, TimestampNs, Date, DateDays, TimeMs, TimeUs, TimeNs, UUID, Bytes}

// maxPrecision is that of numeric in Postgres.
const maxPrecision = 1000

// An UnknownTypeError names a type that does not exist.
type UnknownTypeError struct{ Name string }

func (e *UnknownTypeError) Error() string { return fmt.Sprintf("unknown type %q", e.Name) }

// ParseType reads a type: one of [TypeNames], numeric(p) or numeric(p,s), and so numeric_base64.
func ParseType(text string) (Type, error) {
	name, rest, brackets := strings.Cut(text, "(")
	t := Type{Kind: TypeKind(strings.TrimSpace(name))}
	if !slices.Contains(TypeNames, t.Kind) {
		return Type{}, &UnknownTypeError{string(t.Kind)}
	}
	if !brackets {
		return t, nil
	}
	inner, closed := strings.CutSuffix(rest, ")")
	precision, scale, both := strings.Cut(inner, ",")
	var perr, serr error
	t.Precision, perr = strconv.Atoi(strings.TrimSpace(precision))
	if both {
		t.Scale, serr = strconv.Atoi(strings.TrimSpace(scale))
	}
	switch {
	case t.Kind != Numeric && t.Kind != Base64Number:
		return Type{}, fmt.Errorf("type %q: only numeric and numeric_base64 have digits in parentheses", text)
	case !closed || perr != nil || serr != nil || t.Precision < 1 || t.Precision > maxPrecision || t.Scale < 0 || t.Scale > t.Precision:
		return Type{}, fmt.Errorf("type %q: must be %s(DIGITS,FRACTION), such as %[2]s(12,2), with %d digits at most", text, t.Kind, maxPrecision)
	}
	return t, nil
}

// String is the type as [ParseType] reads it.
func (t Type) String() string {
	switch {
	case t.Precision == 0:
		return string(t.Kind)
	case t.Scale == 0:
		return fmt.Sprintf("%s(%d)", t.Kind, t.Precision)
	}
	return fmt.Sprintf("%s(%d,%d)", t.Kind, t.Precision, t.Scale)
}

// CutCondition splits a condition FIELD=VALUE.
func CutCondition(text string) (field, value string, err error) {
	field, value, ok := strings.Cut(text, "=")
	right := strings.TrimRight(field, " ") + "=" + strings.TrimLeft(strings.TrimPrefix(value, "="), " ")
	switch {
	case !ok || field == "":
		err = errors.New("must be FIELD=VALUE, such as op=delete")
	case strings.HasPrefix(value, "="):
		err = fmt.Errorf("FIELD=VALUE has one equals sign, as in %s", right)
	case strings.HasSuffix(field, " ") && strings.HasPrefix(value, " "):
		err = fmt.Errorf("FIELD=VALUE has no spaces around the equals sign, as in %s", right)
	}
	return field, value, err
}

// ParseWhen reads a condition PATH=VALUE. The value null is JSON's.
func ParseWhen(text string) (When, error) {
	field, value, err := CutCondition(text)
	if err != nil {
		return nil, err
	}
	path, err := ParsePath(field)
	if err != nil {
		return nil, err
	}
	v := Value{Text: value}
	if value == "null" {
		v = Value{Null: true}
	}
	return When{{{Path: path, In: []Value{v}}}}, nil
}
