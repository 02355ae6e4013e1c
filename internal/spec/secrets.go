package spec

import (
	"net/url"
	"regexp"
	"strings"
)

// Hidden stands for what is secret.
const Hidden = "xxxxx"

var (
	parameter = regexp.MustCompile(`[?&][^=&]*=[^&]*`)
	// A value as libpq reads it: in quotes, or to the next space, with \ before any letter.
	password = regexp.MustCompile(`(?is)(password\s*=\s*)('(?:[^'\\]|\\.)*'?|(?:[^\s\\]|\\.)*)`)
)

// Redacted is a connection string without its passwords. Of an invalid URL more may be
// hidden: a password with an @ or / in it can end anywhere.
func Redacted(to string) string {
	scheme, rest, isURL := strings.Cut(to, "://")
	if !isURL || password.MatchString(scheme) {
		return password.ReplaceAllString(to, "${1}"+Hidden)
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
