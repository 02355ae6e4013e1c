package main

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/ladder"
	"github.com/weirsync/weir/internal/sink/postgres"
	"github.com/weirsync/weir/internal/sink/sqlite"
	"github.com/weirsync/weir/internal/testcheck"
	"github.com/weirsync/weir/internal/testpg"
)

// TestReaders_AreAnsweredWithinFlushes of weir's, whatever that takes.
func TestReaders_AreAnsweredWithinFlushes(t *testing.T) {
	testcheck.Only(t)
	const rate = 20_000
	f := func(driver, dest string) {
		t.Helper()
		db, err := ladder.Open(driver, dest)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Readers(t.Context(), ReadersConfig{Rows: 5000, Readers: 3, Rates: []int{rate}, For: 100 * time.Millisecond, Runs: 1, Log: discard, period: 50 * time.Millisecond}, db)
		if err != nil {
			t.Fatalf("%s: %v", driver, err)
		}
		if len(r.Writing) != 2 || r.Writing[0].Wanted != 0 || r.Writing[0].Flushes != 0 || r.Writing[0].Reached.Median != 0 {
			t.Fatalf("%s, idle: %+v", driver, r.Writing)
		}
		w := &r.Writing[1]
		if w.Flushes < 2 || w.Wanted != rate || w.Reached.Median <= 0 || w.Reached.Median > 1.5*rate || len(w.WAL) != len(w.Reads) || w.WAL[len(w.WAL)-1].Median <= 0 {
			t.Errorf("%s: %+v", driver, w)
		}
		within := 0
		for i, want := range []int{1, 1, 2, 2, 3, 3} {
			read := &w.Reads[i]
			if read.Readers != want || read.Query != readerQueries[i%2].name || read.Rate.Median <= 0 || read.Kept.Median <= 0 || read.P50 > read.P99 || read.P99 > read.Longest {
				t.Errorf("%s: %+v", driver, read)
			}
			if r.Writing[0].Reads[i].InFlight != 0 || r.Writing[0].Reads[i].Kept.Median != 1 {
				t.Errorf("%s, idle: %+v", driver, r.Writing[0].Reads[i])
			}
			within += read.InFlight
		}
		if within == 0 {
			t.Errorf("%s: no query was answered within a flush", driver)
		}
	}
	dir := t.TempDir()
	f(sqlite.Driver.Name, filepath.Join(dir, "t.db"))
	if left, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
	f(postgres.Driver.Name, testpg.New(t))
}
