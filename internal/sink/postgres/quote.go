package postgres

import (
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// ident makes a name an identifier of SQL. A name has no NUL: the fold rejects
// such fields.
func ident(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// literal makes a text a string of SQL, whatever standard_conforming_strings is.
func (c *client) literal(s string) string { return quote(c.storable(s)) }

// quote is literal for a text that the server's encoding holds.
func quote(s string) string {
	if strings.IndexByte(s, '\\') >= 0 {
		return "E'" + strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(s) + "'"
	}
	return "'" + strings.ReplaceAll(s, "'", "''") + "'"
}

// storable is a text in a form that the server's encoding can hold. What it
// cannot becomes an escape, so that two names stay two.
func (c *client) storable(s string) string {
	plain := true
	for i := 0; i < len(s) && plain; i++ {
		plain = s[i] != 0 && s[i] < utf8.RuneSelf
	}
	if plain || c.unicode && utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for _, r := range strings.ToValidUTF8(s, "?") {
		switch {
		case r != 0 && (r < utf8.RuneSelf || c.unicode):
			b.WriteRune(r)
		case r > 0xFFFF: // as JSON writes it: checkpoints are JSON
			hi, lo := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, hi, lo)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// appendCopyText appends a value of a COPY in text form. Every backslash is
// escaped: \. alone on a line would end the COPY in silence.
func appendCopyText(dst, s []byte) []byte {
	from := 0
	for i, c := range s {
		var e byte
		switch c {
		case '\\':
			e = '\\'
		case '\n':
			e = 'n'
		case '\r':
			e = 'r'
		case '\t':
			e = 't'
		default:
			continue
		}
		dst = append(append(dst, s[from:i]...), '\\', e)
		from = i + 1
	}
	return append(dst, s[from:]...)
}
