//go:build amd64 || arm64

package fold

import "unsafe"

// cpuPrefetch brings the memory at p near. It is a hint: p may be anything.
//
//go:noescape
func cpuPrefetch(p unsafe.Pointer)
