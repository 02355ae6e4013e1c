package bench_test

import (
	"bytes"
	"testing"

	"github.com/weirsync/weir/internal/test/bench"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// TestFlights_ShippedFeedIsCurrent: testdata is what the generator makes.
func TestFlights_ShippedFeedIsCurrent(t *testing.T) {
	shipped := []byte(testcheck.Unzipped(t, "../../../testdata/flights.jsonl.gz"))
	var made bytes.Buffer
	testcheck.NoError(t, bench.Flights(&made, bench.ShippedFlights, bench.ShippedSeed))
	if !bytes.Equal(shipped, made.Bytes()) {
		t.Error("testdata/flights.jsonl.gz is not what the generator makes: make feed")
	}
	if n := bytes.Count(shipped, []byte("\n")); n < 20_000 {
		t.Errorf("the shipped feed has %d messages, 20,000 were promised", n)
	}
}
