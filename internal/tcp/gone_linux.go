package tcp

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// unanswered is the minimum number of retransmissions or probes without an answer.
const unanswered = 3

// gone reports whether a peer has not answered for a while: data is retransmitted again and again, or probes for its
// receive window get no answer.
func gone(c net.Conn, silence time.Duration) bool {
	t := tcpConn(c)
	if t == nil {
		return false
	}
	var info *unix.TCPInfo
	raw, err := t.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) {
			info, _ = unix.GetsockoptTCPInfo(int(fd), syscall.IPPROTO_TCP, unix.TCP_INFO)
		})
	}
	if err != nil || info == nil {
		return false
	}
	return max(info.Retransmits, info.Probes) >= unanswered && int64(info.Last_ack_recv) >= silence.Milliseconds()
}
