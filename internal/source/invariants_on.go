//go:build race || invariants

package source

import "bytes"

var poisoned = bytes.Repeat([]byte{0xCC}, blockSize)

// poison makes it show when a released buffer is still in use.
func poison(buf []byte) {
	for len(buf) > 0 {
		buf = buf[copy(buf, poisoned):]
	}
}
