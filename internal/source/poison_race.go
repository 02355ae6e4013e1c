//go:build race

package source

import "bytes"

var poisoned = bytes.Repeat([]byte{0xCC}, blockSize)

// poison overwrites a released buffer, so later use shows.
func poison(buf []byte) {
	for len(buf) > 0 {
		buf = buf[copy(buf, poisoned):]
	}
}
