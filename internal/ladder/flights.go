package ladder

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
)

// perFlight is how many messages a flight has in the feed of writeFlights.
const perFlight = 25

// flightFields are those that a message of a flight may name.
var flightFields = []string{"alt", "gs", "heading", "lat", "lon", "gate_orig", "gate_dest", "actual_off", "estimated_in", "status", "reg", "route"}

// writeFlights writes a feed of sparse messages about flights, of which each names a few fields, for those who name no
// feed. It is the same each time.
func writeFlights(path string, messages int) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	b := bufio.NewWriter(f)
	random := rand.New(rand.NewPCG(1, 2))
	for range messages {
		fmt.Fprintf(b, `{"id":"BAW%06d"`, random.IntN(messages/perFlight+1))
		first := random.IntN(len(flightFields))
		for i := range 2 + random.IntN(4) {
			fmt.Fprintf(b, `,%q:"%d"`, flightFields[(first+i)%len(flightFields)], random.IntN(50_000))
		}
		fmt.Fprintln(b, "}")
	}
	return b.Flush()
}
