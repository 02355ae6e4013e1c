package cli

import (
	"net/url"
	"regexp"
	"strings"
)

const hidden = "xxxxx"

// shown is what people may see of a flag's value: nothing of --init, which has the login of a
// feed, and no password of --to.
func shown(flag, value string) string {
	switch {
	case flag == "init" && value != "":
		return hidden
	case flag == "to":
		return redacted(value)
	}
	return value
}

var (
	parameter = regexp.MustCompile(`[?&][^=&]*=[^&]*`)
	// A value as libpq reads it: in quotes, or to the next space, with \ before any letter.
	password = regexp.MustCompile(`(?is)(password\s*=\s*)('(?:[^'\\]|\\.)*'?|(?:[^\s\\]|\\.)*)`)
)

// redacted is a connection string without its passwords. Of an invalid URL more may be
// hidden: a password with an @ or / in it can end anywhere.
func redacted(to string) string {
	scheme, rest, isURL := strings.Cut(to, "://")
	if !isURL || password.MatchString(scheme) {
		return password.ReplaceAllString(to, "${1}"+hidden)
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		if colon := strings.IndexByte(rest[:at], ':'); colon >= 0 {
			rest = rest[:colon+1] + hidden + rest[at:]
		}
	}
	return scheme + "://" + parameter.ReplaceAllStringFunc(rest, func(p string) string {
		key, _, _ := strings.Cut(p, "=")
		if name, err := url.QueryUnescape(key[1:]); err == nil && !strings.Contains(strings.ToLower(name), "password") {
			return p
		}
		return key + "=" + hidden
	})
}

// public is an argument of the command line as everybody may see it; before is its
// predecessor.
func public(before, arg string) string {
	if before == "--init" {
		return hidden
	}
	if strings.HasPrefix(arg, "--init=") {
		return "--init=" + hidden
	}
	return redacted(arg)
}
