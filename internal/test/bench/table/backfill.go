//go:build unix

package main

import (
	"io"
	"os"

	"github.com/weirsync/weir/internal/test/bench"
)

// backfills are feeds that are read at full speed.
func (t *table) backfills() []backfill {
	return []backfill{
		{"hot", million, func() string { return t.feed(million, 50_000) }},
		{"distinct", million, func() string { return t.feed(million, million) }},
		{"500,000 ids", 2_500_000, func() string { return t.feed(2_500_000, 500_000) }},
		{"1,000,000 ids", 5 * million, func() string { return t.feed(5*million, million) }},
		{"narrow", 2 * million, t.narrow},
	}
}

type backfill struct {
	name     string
	messages int
	feed     func() string // returns its path
}

// narrow writes a feed whose rows have three columns.
func (t *table) narrow() string {
	return t.write("narrow", func(w io.Writer) error { return bench.Narrow(w, 2*million, 2*million, 1) })
}

// backfill compares the defaults with a single batch of any size, and with other programs that fold such a feed:
// DuckDB with its own table, and the C program with batches of 100,000 rows. The peak is for the defaults, without a
// server's memory.
func (t *table) backfill() {
	t.head("feed", "into", "wall", "messages/s", "CPU", "peak", "of one batch", "of DuckDB", "of the C program")
	for _, f := range t.backfills() {
		path := f.feed()
		one := []string{"--buffer", "4GiB"}
		others := []command{
			{args: []string{*python, "bench/reference/fold.py", path, t.db() + ".duckdb"}},
			{args: []string{"bin/reference", path, t.db()}},
		}
		c := t.run(*rounds, append(others, t.weir(path), t.weir(path, one...))...)
		t.backfilled(f, "SQLite", c[2], c[3], c[0], c[1])
		if *postgres != "" {
			p := t.turns(*rounds, t.emptySchema, t.intoPostgres(path), t.intoPostgres(path, one...))
			t.backfilled(f, "Postgres", p[0], p[1], c[0], c[1])
		}
		check(os.Remove(path))
	}
}

func (t *table) backfilled(f backfill, into string, weir, one, duckdb, reference cost) {
	t.row(f.name, into, weir.wall, int(float64(f.messages)/weir.wall.Seconds()), weir.cpu, mib(weir.rss),
		ratio(weir.wall, one.wall), ratio(weir.wall, duckdb.wall), ratio(weir.wall, reference.wall))
}
