//go:build !amd64 && !arm64

package fold

import "unsafe"

func cpuPrefetch(unsafe.Pointer) {}
