//go:build race

package fold

// poison makes a value that outlived its batch show: a slice kept out of a
// reused arena is this package's likeliest bug.
func poison(b []byte) {
	for i := range b {
		b[i] = 0xCC
	}
}
