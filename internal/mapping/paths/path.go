// Package paths has paths to values in a message, conditions on these values, and a reader for both.
package paths

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/weirsync/weir/internal/feed"
)

// A Path leads from a message to a value in it.
type Path struct {
	Base  Base
	Steps []Step
	Text  string // as it was written
	place Place  // see [Path.Placed]
}

// Base is where a path starts.
type Base uint8

// Where a path starts.
const (
	NoBase Base = iota // the base of the zero path, which leads nowhere
	// DefaultBase is the base of a path without $ or ^: the row. In conditions and in version_field it is the whole
	// message, or in a child table the whole element.
	DefaultBase
	MessageBase // $
	ParentBase  // ^: the element or message that contains the current array
	VersionBase // the version in the message's envelope
)

// A Step leads to a member of an object or an element of an array.
type Step struct {
	Name  string
	Index int // -1 if the step is a member
}

// ParsePath parses a path: a.b, "x.y".z, a[0], . (the value itself), $ or $.a (from the message), ^.a (from the
// parent element).
func ParsePath(text string) (Path, error) {
	if !utf8.ValidString(text) {
		return Path{}, fmt.Errorf("path %q is not UTF-8", text)
	}
	p := Path{Base: DefaultBase, Text: text}
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

// cutStep parses the first step of a path.
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

// FieldPath returns the path of the member with a name, which may have any characters.
func FieldPath(name string) Path {
	p := Path{Base: DefaultBase, Steps: []Step{{Name: name, Index: -1}}}
	p.Text = p.String()
	return p
}

// String returns the path in its canonical spelling, which [ParsePath] reads.
func (p Path) String() string {
	if p.Base == VersionBase {
		return p.Text
	}
	var b strings.Builder
	b.WriteString(map[Base]string{MessageBase: "$", ParentBase: "^"}[p.Base])
	if b.Len() == 0 && len(p.Steps) == 0 && p.Base == DefaultBase {
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
			b.Write(feed.AppendString(nil, s.Name))
		}
	}
	return b.String()
}

// Placed returns the path with the place that it leads to.
func (p Path) Placed(at Place) Path {
	p.place = at
	return p
}

// Place returns the place of a placed path; [Nowhere] for the zero path.
func (p *Path) Place() Place {
	if p.Base == NoBase {
		return Nowhere
	}
	return p.place
}

// Title returns the path for messages: String, or the bare name of a field.
func (p Path) Title() string {
	if p.Base == DefaultBase && len(p.Steps) == 1 && p.Steps[0].Index < 0 {
		return p.Steps[0].Name
	}
	return p.String()
}

// EnvelopeVersion is the path of the version in a message's envelope.
var EnvelopeVersion = Path{Base: VersionBase, Text: "the envelope's version"}

// MarshalText implements [encoding.TextMarshaler]. All spellings of a path have the same text.
func (p Path) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler] with [ParsePath].
func (p *Path) UnmarshalText(text []byte) (err error) {
	*p, err = ParsePath(string(text))
	return err
}
