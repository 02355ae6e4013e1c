// Command gen writes feeds: the shipped one, and the feeds of the benchmarks.
package main

import (
	"bufio"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"github.com/weirsync/weir/internal/test/bench"
)

func main() {
	path := flag.String("o", "testdata/flights.jsonl.gz", "the file; with gzip where its name ends so")
	kind := flag.String("kind", "flights", "flights, hot (few ids, many messages), shapes (hot, of six types), distinct (each message an id of its own) or narrow (three columns)")
	flights := flag.Int("flights", bench.ShippedFlights, "flights")
	messages := flag.Int("messages", 1_000_000, "messages of the other kinds")
	ids := flag.Int("ids", 50_000, "ids of the hot feeds")
	seed := flag.Uint64("seed", bench.ShippedSeed, "of the random numbers")
	flag.Parse()
	feeds := map[string]func(io.Writer) error{
		"flights":  func(w io.Writer) error { return bench.Flights(w, *flights, *seed) },
		"hot":      func(w io.Writer) error { return bench.Hot(w, *messages, *ids, *seed) },
		"shapes":   func(w io.Writer) error { return bench.Shapes(w, *messages, *ids, *seed) },
		"distinct": func(w io.Writer) error { return bench.Distinct(w, *messages, *seed) },
		"narrow":   func(w io.Writer) error { return bench.Narrow(w, *messages, *ids, *seed) },
	}
	feed, ok := feeds[*kind]
	if !ok {
		log.Fatalf("there is no kind %q", *kind)
	}
	if err := write(*path, feed); err != nil {
		log.Fatal(fmt.Errorf("%s: %w", *path, err))
	}
}

func write(path string, feed func(io.Writer) error) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if !strings.HasSuffix(path, ".gz") {
		w := bufio.NewWriterSize(f, 1<<20)
		return errors.Join(feed(w), w.Flush())
	}
	z, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return err
	}
	return errors.Join(feed(z), z.Close())
}
