package pgserver

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// taken are the UDP ports of the returned ports' numbers, which this process keeps: nothing else uses them, and no
// other process gets the same port, even while the server is down.
var taken sync.Map

// FreePort returns a free TCP port below the range that the system assigns to clients, so no client takes it while the
// server is down.
func FreePort() (port int, err error) {
	for range 100 {
		port = 10_000 + rand.IntN(20_000)
		address := fmt.Sprint("127.0.0.1:", port)
		kept, uerr := net.ListenPacket("udp", address)
		if err = uerr; err != nil {
			continue
		}
		l, lerr := net.Listen("tcp", address)
		if err = lerr; err == nil {
			taken.Store(port, kept)
			return port, l.Close()
		}
		err = errors.Join(err, kept.Close())
	}
	return 0, err
}
