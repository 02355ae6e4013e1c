package bench_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"testing"

	"github.com/weirsync/weir/internal/test/bench"
)

// TestFlights_ShippedFeedIsCurrent: testdata is what the generator makes.
func TestFlights_ShippedFeedIsCurrent(t *testing.T) {
	f, err := os.Open("../../../testdata/flights.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	shipped, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	var made bytes.Buffer
	if err := bench.Flights(&made, bench.ShippedFlights, bench.ShippedSeed); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(shipped, made.Bytes()) {
		t.Error("testdata/flights.jsonl.gz is not what the generator makes: make feed")
	}
	if n := bytes.Count(shipped, []byte("\n")); n < 20_000 {
		t.Errorf("the shipped feed has %d messages, 20,000 were promised", n)
	}
}
