package cli_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
)

// publisher serves MQTT: to each subscriber it sends the lines of a feed. It returns its address.
func publisher(t testing.TB, feed string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	// next reads a packet, and returns its type and body, which is short here.
	next := func(r *bufio.Reader) (kind byte, body []byte) {
		var head [2]byte
		if _, err := io.ReadFull(r, head[:]); err != nil || head[1] >= 128 {
			return 0, nil
		}
		body = make([]byte, head[1])
		_, _ = io.ReadFull(r, body)
		return head[0] >> 4, body
	}
	const topic = "flights/BA"
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for r := bufio.NewReader(c); ; {
					switch kind, body := next(r); kind {
					case 0:
						return
					case 1: // CONNECT
						_, _ = c.Write([]byte{0x20, 2, 0, 0})
					case 8: // SUBSCRIBE
						_, _ = c.Write([]byte{0x90, 3, body[0], body[1], 0})
						for line := range strings.Lines(feed) {
							line = strings.TrimSpace(line)
							_, _ = fmt.Fprintf(c, "%c%c\x00%c%s%s", 0x30, 2+len(topic)+len(line), len(topic), topic, line)
						}
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}
