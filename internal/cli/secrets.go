package cli

import (
	"strings"

	"github.com/weirsync/weir/internal/spec"
)

// public is an argument of the command line as everybody may see it; before is its
// predecessor.
func public(before, arg string) string {
	if before == "--init" {
		return spec.Hidden
	}
	if strings.HasPrefix(arg, "--init=") {
		return "--init=" + spec.Hidden
	}
	return spec.Redacted(arg)
}
