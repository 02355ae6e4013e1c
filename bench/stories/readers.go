package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirsync/weir/bench/ladder"
	"github.com/weirsync/weir/bench/report"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/pipeline"
	"github.com/weirsync/weir/internal/quantity"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/source/file"
	"github.com/weirsync/weir/internal/status"
)

// ReadersConfig is what is measured of programs that read a table while weir writes it.
type ReadersConfig struct {
	Rows    int           // of the table
	Readers int           // at most, each on a connection of its own; 0: as many as there are cores
	Rates   []int         // updates a second that weir writes; before them it is idle
	For     time.Duration // how long each number of readers asks each query
	Runs    int
	Log     *slog.Logger
}

// A ReadersResult is what was measured.
type ReadersResult struct {
	Database string         `json:"database"`
	Cores    int            `json:"cores"`
	Rows     int            `json:"rows"`
	Runs     int            `json:"runs"`
	For      time.Duration  `json:"measured_ns"` // in each run
	Writing  []ReadersWrite `json:"writing"`     // at first: weir is idle
}

// A ReadersWrite is what was measured while weir wrote at one rate.
type ReadersWrite struct {
	Wanted  int             `json:"wanted_updates_per_second"`
	Reached report.Spread   `json:"updates_per_second"`
	Flushes int             `json:"flushes"` // of all runs
	Longest time.Duration   `json:"longest_flush_ns"`
	Reads   []ReadersRead   `json:"reads"`
	WAL     []report.Spread `json:"wal_bytes"` // after each of the reads; of Postgres, what was written since the first began
}

// A ReadersRead is one query, asked by some readers at once.
type ReadersRead struct {
	Query    string        `json:"query"`
	Readers  int           `json:"readers"`
	Rate     report.Spread `json:"queries_per_second"` // of all readers
	Kept     report.Spread `json:"of_idle"`
	P50      time.Duration `json:"p50_ns"` // within 0.4 %, and P99
	P99      time.Duration `json:"p99_ns"`
	Longest  time.Duration `json:"longest_ns"`
	InFlight int           `json:"during_flushes"` // queries that began and ended within one flush
}

// A readerQuery is one that readers ask.
type readerQuery struct {
	name, sql string // behind the placeholder of the id
	rows      int    // of its answer, at most
}

var readerQueries = []readerQuery{{"a row by its key", "SELECT * FROM t WHERE id = %s", 1}, {"100 rows from a key on", "SELECT * FROM t WHERE id >= %s ORDER BY id LIMIT 100", 100}}

const readersColumns = 4 // of 32 bytes, beside the key

// Readers measures queries in db, which it leaves as it was.
func Readers(ctx context.Context, c ReadersConfig, db ladder.Database) (r *ReadersResult, err error) {
	r = &ReadersResult{Cores: runtime.GOMAXPROCS(0), Rows: c.Rows, Runs: c.Runs, For: c.For}
	err = ladder.Within(ctx, db, c.Log, func(dir string) error {
		r.Database = db.Name()
		w := &readersWork{c: &c, db: db, feed: filepath.Join(dir, "feed.jsonl"), random: rand.New(rand.NewPCG(1, 3))}
		return w.turns(ctx, r)
	})
	if err != nil {
		return nil, cmp.Or(ctx.Err(), err)
	}
	return r, nil
}

// readersWork is one database at work.
type readersWork struct {
	c      *ReadersConfig
	db     ladder.Database
	feed   string
	random *rand.Rand
	jobs   int
	// flushes is what a [countingSink] counts.
	flushes atomic.Int64
}

// counts are the numbers of readers.
func (w *readersWork) counts() []int {
	most := cmp.Or(w.c.Readers, runtime.GOMAXPROCS(0))
	var counts []int
	for n := 1; n < most; n *= 2 {
		counts = append(counts, n)
	}
	return append(counts, most)
}

// turns fills the table, and measures all rates in turns.
func (w *readersWork) turns(ctx context.Context, r *ReadersResult) error {
	if err := writeMessages(w.feed, rowKeys(w.c.Rows), readersColumns, w.random); err != nil {
		return err
	}
	if err := w.sync(ctx, 0, status.New("t")); err != nil {
		return err
	}
	rates := append([]int{0}, w.c.Rates...)
	runs := make([][]*readersRun, len(rates))
	for turn := range w.c.Runs {
		for i, rate := range rates {
			w.c.Log.Info(fmt.Sprintf("readers while weir writes %d updates/s (%d of %d)", rate, turn+1, w.c.Runs))
			run, err := w.run(ctx, rate)
			if err != nil {
				return err
			}
			runs[i] = append(runs[i], run)
		}
	}
	for i, rate := range rates {
		r.Writing = append(r.Writing, joined(rate, runs[i]))
		for k := range r.Writing[i].Reads {
			r.Writing[i].Reads[k].Kept = ratioOf(ratesOf(runs[i], k), ratesOf(runs[0], k))
		}
	}
	return nil
}

// ratesOf are the rates of one of the reads.
func ratesOf(runs []*readersRun, read int) []ladder.Timing {
	var rates []ladder.Timing
	for _, r := range runs {
		rates = append(rates, ladder.Timing{Rate: ladder.RateOf(int(r.reads[read].times.n), r.reads[read].took)})
	}
	return rates
}

// rowKeys are the keys of n rows.
func rowKeys(n int) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range n {
			if !yield(rowKey(i)) {
				return
			}
		}
	}
}

// A readersRun is what one ladder.Timing gave.
type readersRun struct {
	reached float64
	flushes int
	longest time.Duration // of the flushes
	reads   []readersAsked
	wal     []int64
}

// readersAsked are the queries of some readers.
type readersAsked struct {
	query    string
	readers  int
	took     time.Duration
	times    histogram
	inFlight int // began and ended within one flush
}

// A countingSink counts how often a flush began or ended: while the count is odd, one is under way.
type countingSink struct {
	sink.Sink
	count *atomic.Int64
}

func (s *countingSink) Flush(ctx context.Context, f *sink.Flush) (sink.Result, error) {
	s.count.Add(1)
	defer s.count.Add(1)
	return s.Sink.Flush(ctx, f)
}

// run measures all numbers of readers while weir writes at a rate.
func (w *readersWork) run(ctx context.Context, rate int) (r *readersRun, err error) {
	r = &readersRun{}
	writing, stop := context.WithCancel(ctx)
	defer stop()
	p, start := status.New("t"), time.Now()
	begun := make(chan struct{})
	p.Observe(func(f *status.Flush) {
		if r.flushes++; r.flushes == 1 {
			close(begun)
		}
		r.longest = max(r.longest, time.Duration(f.Seconds*float64(time.Second)))
	})
	ended, lines := make(chan error, 1), 0
	if rate > 0 {
		cells := len(w.counts()) * len(readerQueries)
		lines = rate * int(2*time.Duration(cells)*w.c.For/time.Second+4) // more than are read
		if err := writeMessages(w.feed, w.someRows(lines), 1, w.random); err != nil {
			return nil, err
		}
		start = time.Now()
		go func() { ended <- w.sync(writing, float64(rate), p) }()
		select {
		case <-begun:
		case err := <-ended:
			return nil, cmp.Or(err, errors.New("weir wrote nothing"))
		}
	} else {
		ended <- nil
	}
	err = w.ask(ctx, r)
	over := len(ended) > 0
	stop()
	switch werr := <-ended; {
	case werr != nil && !errors.Is(werr, context.Canceled):
		err = errors.Join(err, werr)
	case err == nil && over && rate > 0: // what was asked since was asked of an idle weir
		err = fmt.Errorf("weir had written all %s before the readers were done: a longer --for gives it more", quantity.Count(int64(lines), "update"))
	}
	r.reached = float64(p.Snapshot().Tables[0].Messages) / time.Since(start).Seconds()
	return r, err
}

// someRows are the keys of random rows of the table.
func (w *readersWork) someRows(n int) iter.Seq[string] {
	return func(yield func(string) bool) {
		for range n {
			if !yield(rowKey(w.random.IntN(w.c.Rows))) {
				return
			}
		}
	}
}

// sync has weir write the feed.
func (w *readersWork) sync(ctx context.Context, rate float64, p *status.Progress) error {
	db, err := w.db.Sink(ctx, sink.Options{Level: sink.Full})
	if err != nil {
		return err
	}
	to := &countingSink{db, &w.flushes}
	w.jobs++ // none resumes another
	c := pipeline.Config{Kind: file.Kind(file.Options{}), Sources: []string{w.feed}, Job: fmt.Sprint(w.jobs), Limits: pipeline.Limits{BatchRows: 100_000, MaxRate: rate, Buffer: 64 << 20}, Log: discard}
	table := mapping.Table{Name: "t", Key: []string{"id"}, Rules: fold.Rules{MaxColumns: readersColumns + 1}}
	if c.Plan, err = mapping.Compile(&mapping.Mapping{Tables: []mapping.Table{table}}, to.Caps().Limits); err != nil {
		return err
	}
	return ladder.RunJob(ctx, c, to, p)
}

// ask has each number of readers ask each query.
func (w *readersWork) ask(ctx context.Context, r *readersRun) (err error) {
	first, err := walOf(ctx, w.db, 0)
	if err != nil {
		return err
	}
	var readers []*sql.DB
	defer func() {
		for _, c := range readers {
			err = errors.Join(err, c.Close())
		}
	}()
	for _, n := range w.counts() {
		for len(readers) < n {
			c, err := w.db.OpenSQL(ctx, sink.Full)
			if err != nil {
				return err
			}
			readers = append(readers, c)
		}
		for i := range readerQueries {
			asked, err := w.asked(ctx, &readerQueries[i], readers)
			if err != nil {
				return err
			}
			r.reads = append(r.reads, asked)
			wal, err := walOf(ctx, w.db, first)
			if err != nil {
				return err
			}
			r.wal = append(r.wal, wal)
		}
	}
	return nil
}

// asked has readers ask a query, one after the other each, for so long as is measured.
func (w *readersWork) asked(ctx context.Context, q *readerQuery, readers []*sql.DB) (a readersAsked, err error) {
	a = readersAsked{query: q.name, readers: len(readers)}
	each, errs := make([]readersAsked, len(readers)), make([]error, len(readers))
	start := time.Now()
	var wg sync.WaitGroup
	for i, c := range readers {
		random := rand.New(rand.NewPCG(w.random.Uint64(), 0))
		wg.Go(func() { errs[i] = w.reader(ctx, c, q, &each[i], start.Add(w.c.For), random) })
	}
	wg.Wait()
	a.took = time.Since(start)
	for i := range each {
		a.times.merge(&each[i].times)
		a.inFlight += each[i].inFlight
	}
	return a, errors.Join(errs...)
}

// reader asks a query until a time, once at least.
func (w *readersWork) reader(ctx context.Context, c *sql.DB, q *readerQuery, a *readersAsked, until time.Time, random *rand.Rand) (err error) {
	stmt, err := c.PrepareContext(ctx, fmt.Sprintf(q.sql, w.db.Placeholder(1)))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stmt.Close()) }()
	for end := (time.Time{}); end.Before(until); {
		id := random.IntN(w.c.Rows)
		flush, begin := w.flushes.Load(), time.Now()
		n, err := fetch(ctx, stmt, rowKey(id))
		if err != nil {
			return err
		}
		if end = time.Now(); n != min(q.rows, w.c.Rows-id) {
			return fmt.Errorf("%s: %d rows from %d on", q.name, n, id)
		}
		if a.times.add(end.Sub(begin)); flush%2 == 1 && w.flushes.Load() == flush {
			a.inFlight++
		}
	}
	return nil
}

// fetch reads the whole answer of a query, and returns the number of its rows.
func fetch(ctx context.Context, stmt *sql.Stmt, id string) (n int, err error) {
	rows, err := stmt.QueryContext(ctx, id)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var values [readersColumns + 1]sql.RawBytes
	cells := make([]any, len(values))
	for i := range values {
		cells[i] = &values[i]
	}
	for ; rows.Next(); n++ {
		if err := rows.Scan(cells...); err != nil {
			return n, err
		}
	}
	return n, rows.Err()
}

// joined is what several runs at a rate gave.
func joined(rate int, runs []*readersRun) ReadersWrite {
	r := ReadersWrite{Wanted: rate, Reached: spreadOver(runs, func(run *readersRun) float64 { return run.reached })}
	for _, run := range runs {
		r.Flushes += run.flushes
		r.Longest = max(r.Longest, run.longest)
	}
	for i := range runs[0].reads {
		read := ReadersRead{Query: runs[0].reads[i].query, Readers: runs[0].reads[i].readers,
			Rate: ladder.CostOf(ratesOf(runs, i)).Rate}
		var times histogram
		for _, run := range runs {
			times.merge(&run.reads[i].times)
			read.InFlight += run.reads[i].inFlight
		}
		read.P50, read.P99, read.Longest = times.quantile(0.5), times.quantile(0.99), times.longest
		r.Reads = append(r.Reads, read)
		r.WAL = append(r.WAL, spreadOver(runs, func(run *readersRun) float64 { return float64(run.wal[i]) }))
	}
	return r
}

func spreadOver[T any](runs []T, of func(run T) float64) report.Spread {
	var values []float64
	for _, r := range runs {
		values = append(values, of(r))
	}
	return report.SpreadOf(values)
}
