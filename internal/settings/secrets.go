package settings

import (
	"net/url"
	"regexp"
	"strings"
)

// Hidden replaces secrets.
const Hidden = "xxxxx"

var (
	// What may be a URL whose // is missing or wrong.
	unknown   = regexp.MustCompile(`(?s)^([^:]*:).*(@)`)
	parameter = regexp.MustCompile(`[?&][^=&]*=[^&]*`)
	// A value as libpq parses it: in quotes, or up to the next space, with \ before any character.
	password = regexp.MustCompile(`(?is)(password\s*=\s*)('(?:[^'\\]|\\.)*'?|(?:[^\s\\]|\\.)*)`)
)

// Redacted returns the name of a database or source without passwords. It hides what it does not understand: all from
// the first colon to the last @, because a password with @ or / can end anywhere.
func Redacted(to string) string {
	scheme, rest, isURL := strings.Cut(to, "://")
	switch {
	case password.MatchString(scheme):
		return password.ReplaceAllString(to, "${1}"+Hidden)
	case !isURL:
		return unknown.ReplaceAllString(to, "${1}"+Hidden+"${2}")
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		if colon := strings.IndexByte(rest[:at], ':'); colon >= 0 {
			rest = rest[:colon+1] + Hidden + rest[at:]
		}
	}
	return scheme + "://" + parameter.ReplaceAllStringFunc(rest, func(p string) string {
		key, _, _ := strings.Cut(p, "=")
		if name, err := url.QueryUnescape(key[1:]); err == nil && !strings.Contains(strings.ToLower(name), "password") {
			return p
		}
		return key + "=" + Hidden
	})
}
