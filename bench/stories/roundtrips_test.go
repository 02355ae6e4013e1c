package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/weirsync/weir/bench/ladder"
	"github.com/weirsync/weir/internal/sink/postgres"
	"github.com/weirsync/weir/internal/sink/sqlite"
	"github.com/weirsync/weir/internal/test/logtest"
	"github.com/weirsync/weir/internal/test/testcheck"
	"github.com/weirsync/weir/internal/test/testpg"
)

// roundtripsOf runs the story in a database.
func roundtripsOf(ctx context.Context, t *testing.T, url string, c RoundtripsConfig) (*RoundtripsResult, error) {
	t.Helper()
	db, err := ladder.Open(postgres.Driver.Name, url)
	testcheck.NoError(t, err)
	c.Log = logtest.New(t)
	return Roundtrips(ctx, c, db)
}

func TestRoundtrips_CountsThem(t *testing.T) {
	testcheck.Only(t)
	url := testpg.New(t)
	for _, rows := range []int{7, 80} {
		r, err := roundtripsOf(t.Context(), t, url, RoundtripsConfig{Rows: rows, Tables: []int{1, 3}, Delays: []time.Duration{0, time.Millisecond}, For: time.Minute, Runs: 1})
		testcheck.NoError(t, err)
		if len(r.Trips) != 2*2*5 {
			t.Fatalf("%d were measured", len(r.Trips))
		}
		for _, m := range r.Trips {
			want := int64(1)
			switch tables := int64(m.Tables); m.Way {
			case rowByRow: // begin, commit, a statement to prepare for each table, and the rows
				want = 2 + tables + tables*int64(rows)
			case statements: // one to prepare and one to run for each table
				want = 2 + 2*tables
			case prepared:
				want = 2 + tables
			case firstBatch: // a look at all tables, and the flush
				want = 2 + 1
			}
			if m.Trips != want || m.Messages != rows {
				t.Errorf("%s: %d messages of %d tables with %v took %d round trips, want %d", m.Way, m.Messages, m.Tables, m.Delay, m.Trips, want)
			}
			if least := time.Duration(m.Trips) * m.Delay; float64(rows)/m.Rate.Most < least.Seconds() {
				t.Errorf("%s: %d round trips with %v each took less than that: %v", m.Way, m.Trips, m.Delay, m.Rate)
			}
		}
	}
}

// TestRoundtrips_StopRowByRow: what is left of the messages is reckoned.
func TestRoundtrips_StopRowByRow(t *testing.T) {
	testcheck.Only(t)
	const rows, delay = 1000, 5 * time.Millisecond
	r, err := roundtripsOf(t.Context(), t, testpg.New(t), RoundtripsConfig{Rows: rows, Tables: []int{2}, Delays: []time.Duration{delay}, For: time.Nanosecond, Runs: 1})
	testcheck.NoError(t, err)
	m := &r.Trips[0]
	if m.Way != rowByRow || m.Messages != 1 || m.Trips != 2+2+2 || rows/m.Rate.Median < (2*rows*delay).Seconds() {
		t.Errorf("%+v", m)
	}
	if text := r.Page().Result; !strings.Contains(text, "1,000 messages of 2 tables with 5ms added: row by row ") || !strings.Contains(text, "which takes 1 round trip.") {
		t.Error(text)
	}
}

func TestRoundtrips_NeedPostgres(t *testing.T) {
	db, err := ladder.Open(sqlite.Driver.Name, "t.db")
	testcheck.NoError(t, err)
	if _, err := Roundtrips(t.Context(), RoundtripsConfig{}, db); err == nil || !strings.Contains(err.Error(), "with -to") {
		t.Error(err)
	}
}

// TestMessages_Ready: messages are found wherever what a server sends is cut.
func TestMessages_Ready(t *testing.T) {
	sent := []byte("T\x00\x00\x00\x06ZZ" + "Z\x00\x00\x00\x05I" + "D\x00\x00\x00\x04" + "Z\x00\x00\x00\x05T")
	for size := 1; size <= len(sent); size++ {
		var m messages
		found := 0
		for at := 0; at < len(sent); at += size {
			if m.ready(sent[at:min(at+size, len(sent))]) {
				found++
			}
		}
		if want := min(2, (len(sent)+size-1)/size); found != want && size < 11 {
			t.Errorf("in pieces of %d bytes %d are found, want %d", size, found, want)
		}
	}
}
