//go:build linux || darwin

package cli

import (
	"strings"
	"unsafe"
)

// hideSecrets overwrites passwords in the arguments that ps shows, and keeps them in args. args must be os.Args: its
// strings are the memory that ps reads.
func hideSecrets(args []string) {
	before := ""
	for i, a := range args {
		title := redactArg(before, a)
		before = a
		if title == a {
			continue
		}
		args[i] = strings.Clone(a)
		memory := unsafe.Slice(unsafe.StringData(a), len(a))
		for n := copy(memory, title); n < len(memory); n++ {
			memory[n] = ' '
		}
	}
}
