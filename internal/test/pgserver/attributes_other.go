//go:build unix && !linux

package pgserver

import "syscall"

func attributes(c *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: c}
}
