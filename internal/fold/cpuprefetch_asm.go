//go:build amd64 || arm64

package fold

import "unsafe"

// cpuPrefetch loads the memory at p into the CPU's cache. It is a hint: p may be any address.
//
//go:noescape
func cpuPrefetch(p unsafe.Pointer)
