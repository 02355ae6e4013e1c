//go:build linux || darwin

package cli

import (
	"strings"
	"unsafe"
)

// hideSecrets overwrites secrets among the program's arguments where the system
// shows them to everybody, and keeps them in args. These must be os.Args, whose
// strings are here the memory that ps reads.
func hideSecrets(args []string) {
	before := ""
	for i, a := range args {
		title := public(before, a)
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
