//go:build !linux

package testkafka

import "syscall"

func attributes() *syscall.SysProcAttr { return nil }
