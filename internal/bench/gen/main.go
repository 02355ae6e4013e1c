// Command gen writes the shipped feed.
package main

import (
	"compress/gzip"
	"flag"
	"log"
	"os"

	"github.com/weirsync/weir/internal/bench"
)

func main() {
	path := flag.String("o", "testdata/flights.jsonl.gz", "the file, written with gzip")
	flights := flag.Int("flights", bench.ShippedFlights, "flights")
	seed := flag.Uint64("seed", bench.ShippedSeed, "of the random numbers")
	flag.Parse()
	if err := write(*path, *flights, *seed); err != nil {
		log.Fatal(err)
	}
}

func write(path string, flights int, seed uint64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return err
	}
	if err := bench.Flights(z, flights, seed); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return f.Close()
}
