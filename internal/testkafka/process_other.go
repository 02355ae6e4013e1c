//go:build !linux

package testkafka

import "syscall"

func attributes() *syscall.SysProcAttr { return nil }

// lives reports whether a process does, as far as is known.
func lives(int) bool { return true }
