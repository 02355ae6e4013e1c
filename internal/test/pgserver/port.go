package pgserver

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// FreePort returns a free port below the range that the system assigns to clients, so no client takes it while the
// server is down.
func FreePort() (port int, err error) {
	for range 100 {
		port = 10_000 + rand.IntN(20_000)
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprint("127.0.0.1:", port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, err
}
