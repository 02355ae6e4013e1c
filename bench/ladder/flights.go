package ladder

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
)

// perFlight is the number of messages per flight in the feed of writeFlights.
const perFlight = 25

// flightFields are the fields that a message of a flight may set.
var flightFields = []string{"alt", "gs", "heading", "lat", "lon", "gate_orig", "gate_dest", "actual_off", "estimated_in", "status", "reg", "route"}

// writeFlights writes a feed of sparse messages about flights, each with a few fields, for users who name no feed. It
// is always the same.
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
