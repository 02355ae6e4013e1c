package testkafka

import (
	"encoding/binary"
	"io"
	"net"

	"github.com/weirsync/weir/internal/testcheck"
)

// Members are the ids of a group's members, sorted.
func (c *Cluster) Members(group string) (ids []string) {
	if g := c.GroupInfo(group); g != nil {
		for i := range g.Members {
			ids = append(ids, g.Members[i].MemberID)
		}
	}
	return ids
}

// Expel has a classic group take a member for dead, as it does when the member's session has expired.
func (c *Cluster) Expel(group, member string) {
	c.t.Helper()
	conn, err := net.Dial("tcp", c.Addr())
	testcheck.NoError(c.t, err)
	defer func() { _ = conn.Close() }()
	text := func(b []byte, s string) []byte { return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...) }
	const leaveGroup = 13 // its version 0, and a correlation id of 0
	request := text(text(text([]byte{0, leaveGroup, 0, 0, 0, 0, 0, 0}, "test"), group), member)
	_, err = conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(request))), request...))
	answer := make([]byte, 4+4+2) // its size, the correlation id, and an error
	if err == nil {
		_, err = io.ReadFull(conn, answer)
	}
	testcheck.NoError(c.t, err)
	if code := binary.BigEndian.Uint16(answer[8:]); code != 0 {
		c.t.Fatalf("expelling %s from group %s: error %d", member, group, code)
	}
}
