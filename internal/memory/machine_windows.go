package memory

import (
	"io/fs"
	"unsafe"

	"golang.org/x/sys/windows"
)

// machine returns the machine's memory in bytes, 0 if unknown.
func machine(fs.FS) int64 {
	var kib uint64
	ask := windows.NewLazySystemDLL("kernel32.dll").NewProc("GetPhysicallyInstalledSystemMemory")
	if ok, _, _ := ask.Call(uintptr(unsafe.Pointer(&kib))); ok == 0 {
		return 0
	}
	return int64(kib) << 10
}
