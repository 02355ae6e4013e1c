package pgserver

import "syscall"

// attributes has a command run as another user and die with its parent, but not with the parent's
// group: what a terminal interrupts stops its server itself.
func attributes(c *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: c, Pdeathsig: syscall.SIGQUIT, Setpgid: true}
}
