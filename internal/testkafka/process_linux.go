package testkafka

import "syscall"

// attributes has a command die with its parent.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// lives reports whether a process does.
func lives(pid int) bool { return syscall.Kill(pid, 0) != syscall.ESRCH }
