package cli

import (
	"net/url"
	"regexp"
	"strings"
	"unsafe"
)

var password = regexp.MustCompile(`(?i)(password(?:\s*=\s*|\s+))('(?:[^'\\]|\\.)*'|[^\s'&]+)`)

// redacted is a connection string without its password.
func redacted(to string) string {
	if u, err := url.Parse(to); err == nil {
		if _, has := u.User.Password(); has {
			to = u.Redacted()
		}
	} else if scheme, rest, ok := strings.Cut(to, "://"); ok {
		if at := strings.LastIndexByte(rest, '@'); at >= 0 { // no URL, but perhaps with a secret
			to = scheme + "://xxxxx" + rest[at:]
		}
	}
	return password.ReplaceAllString(to, "${1}xxxxx")
}

// hideSecrets overwrites passwords among the program's arguments where the system
// shows them to everybody, and keeps them in args. These must be os.Args: on Unix
// their strings are the memory that ps reads.
func hideSecrets(args []string) {
	for i, a := range args {
		shown := redacted(a)
		if shown == a {
			continue
		}
		args[i] = strings.Clone(a)
		memory := unsafe.Slice(unsafe.StringData(a), len(a))
		for n := copy(memory, shown); n < len(memory); n++ {
			memory[n] = ' '
		}
	}
}
