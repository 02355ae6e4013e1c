//go:build race || invariants

package source

// poison makes it show when a released buffer is still in use.
func poison(buf []byte) {
	for i := range buf {
		buf[i] = 0xCC
	}
}
