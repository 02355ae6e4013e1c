package postgres

import "strings"

// ident makes a name an identifier of SQL. A name has no NUL: the fold rejects
// such fields.
func ident(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// literal makes a text a string of SQL, whatever standard_conforming_strings is.
func literal(s string) string { return quote(storable(s)) }

// quote is literal for a text that is storable.
func quote(s string) string {
	if strings.IndexByte(s, '\\') >= 0 {
		return "E'" + strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(s) + "'"
	}
	return "'" + strings.ReplaceAll(s, "'", "''") + "'"
}

// storable is a text as the server takes it: without NUL and what is no UTF-8.
func storable(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "?"), "\x00", `\u0000`) // as in JSON: checkpoints are JSON
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
