package cli

import (
	"strings"

	"github.com/weirsync/weir/internal/spec"
)

// redactArg returns a command-line argument without passwords. before is the previous argument.
func redactArg(before, arg string) string {
	if before == "--init" {
		return spec.Hidden
	}
	if strings.HasPrefix(arg, "--init=") {
		return "--init=" + spec.Hidden
	}
	return spec.Redacted(arg)
}
