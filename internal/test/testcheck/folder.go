//go:build unix

package testcheck

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Folder creates a folder for a server; its name is a prefix and the number of this process. It removes folders of
// tests that were killed.
func Folder(under, prefix string) (string, error) {
	old, _ := filepath.Glob(filepath.Join(under, prefix+"*"))
	for _, dir := range old {
		number, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), prefix), "-")
		if pid, err := strconv.Atoi(number); err == nil && syscall.Kill(pid, 0) == syscall.ESRCH {
			_ = os.RemoveAll(dir)
		}
	}
	return os.MkdirTemp(under, fmt.Sprintf("%s%d-", prefix, os.Getpid()))
}
