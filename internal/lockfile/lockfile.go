// Package lockfile keeps other processes out by locks of the system, which a process
// that ends lets go, however it ends.
package lockfile

import "os"

// Lock locks one byte of a file, which need not have it, for this process, until the
// file is closed. busy tells that another process has it. Within one process the lock
// keeps nobody out.
func Lock(f *os.File, at int64) (busy bool, err error) { return lock(f, at) }
