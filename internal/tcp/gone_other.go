//go:build !linux

package tcp

import (
	"net"
	"time"
)

// gone is always false: the operating system decides.
func gone(net.Conn, time.Duration) bool { return false }
