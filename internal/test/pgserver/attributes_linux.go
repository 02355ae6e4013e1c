package pgserver

import "syscall"

// attributes makes a command run as another user and die with its parent, but in its own process group: a program
// that is interrupted from a terminal stops its server itself.
func attributes(c *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: c, Pdeathsig: syscall.SIGQUIT, Setpgid: true}
}
