package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
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

// OverwriteConfig is what is measured of rows that are inserted and overwritten while their table
// outgrows the memory.
type OverwriteConfig struct {
	// Memory is what the database's files have, in bytes. 0: 64 MiB, and of a server that runs already
	// its shared buffers.
	Memory int64
	// Limited says that this process and the servers that it starts run in a control group that
	// holds them to Memory, as make stories sets it up if systemd runs the machine.
	Limited bool
	Rows    int // that one ladder.Timing writes at most
	Runs    int
	Log     *slog.Logger
}

// OverwriteMemory is the memory that is compared with where none is named.
const OverwriteMemory = 64 << 20

// sizes are those of the table at which rows are written, in times of the memory.
var sizes = []float64{0.25, 0.5, 1, 2, 4, 6}

// An OverwriteResult is what was measured.
type OverwriteResult struct {
	Runs      int              `json:"runs"`
	Databases []OverwriteTable `json:"databases"`
}

// An OverwriteTable is one database's.
type OverwriteTable struct {
	Database string          `json:"database"`
	Memory   int64           `json:"memory_bytes"`
	Held     bool            `json:"memory_is_limited"` // else it is only compared with
	Sizes    []OverwriteSize `json:"sizes"`
	// Flushes is what larger flushes give at the last size.
	Flushes []OverwriteFlush `json:"flushes"`
}

// An OverwriteSize is what was measured at one size of the table. Each Cost is of the same number of
// rows.
type OverwriteSize struct {
	Times     float64     `json:"times_memory"`
	Bytes     int64       `json:"table_bytes"`
	Rows      int         `json:"table_rows"`
	Written   int         `json:"rows_of_a_run"`
	Insert    ladder.Cost `json:"insert"`
	Scattered ladder.Cost `json:"insert_scattered"` // new keys between those of the table
	Overwrite ladder.Cost `json:"overwrite"`
	// How many times as long writing took as the inserting before it, in the order of the keys.
	ScatteredRatio report.Spread `json:"insert_scattered_of_insert"`
	Ratio          report.Spread `json:"overwrite_of_insert"`
}

// An OverwriteFlush is what flushes of one size cost. The more rows a flush has, the more of them are in the same page.
type OverwriteFlush struct {
	Rows      int           `json:"rows_of_a_flush"`
	Insert    ladder.Cost   `json:"insert"`
	Overwrite ladder.Cost   `json:"overwrite"`
	Ratio     report.Spread `json:"overwrite_of_insert"`
}

// Overwrite measures databases one after the other.
func Overwrite(ctx context.Context, c OverwriteConfig, dbs ...ladder.Database) (*OverwriteResult, error) {
	r := &OverwriteResult{Runs: c.Runs}
	for _, db := range dbs {
		t, err := c.measure(ctx, db)
		if err != nil {
			return nil, cmp.Or(ctx.Err(), err) // what ctx has ended says no more than that it is over
		}
		r.Databases = append(r.Databases, *t)
	}
	return r, nil
}

// overwriteCache is SQLite's page cache, beside the memory of its files.
const overwriteCache = 8 << 20 // bytes

// mostBuffers are the shared buffers that are compared with unasked.
const mostBuffers = 1 << 30 // bytes

func (c *OverwriteConfig) measure(ctx context.Context, db ladder.Database) (t *OverwriteTable, err error) {
	t = &OverwriteTable{Memory: cmp.Or(c.Memory, OverwriteMemory), Held: c.Limited}
	err = ladder.Within(ctx, db, c.Log, func(dir string) (err error) {
		t.Database = db.Name()
		if d, ok := db.(*ladder.Postgres); ok && c.Memory == 0 {
			if t.Memory, err = sharedBuffers(ctx, d); err != nil {
				return err
			}
			if t.Memory > mostBuffers {
				return fmt.Errorf("shared_buffers is %s, and the table would grow to %s: name less with -memory", quantity.Bytes(t.Memory), quantity.Bytes(6*t.Memory))
			}
		}
		w := &overwriting{c: c, db: db, path: filepath.Join(dir, "feed.jsonl"), most: c.Rows, random: rand.New(rand.NewPCG(1, 2))}
		for _, times := range sizes {
			s, err := w.at(ctx, times, t.Memory)
			if err != nil {
				return err
			}
			t.Sizes = append(t.Sizes, *s)
		}
		t.Flushes, err = w.larger(ctx)
		return err
	})
	return t, err
}

// overwriting is one database at work.
type overwriting struct {
	c      *OverwriteConfig
	db     ladder.Database
	path   string // of the messages that are written next
	rows   int    // of the table, beside those that are scattered
	added  int    // how many of the rows that are written next are new
	random *rand.Rand

	scattered int          // rows so far
	syncs     int          // so far
	used      ladder.Usage // so far
	most      int          // rows of a run
}

const (
	overwriteRows = 2_500       // rows of a flush: a run has several
	growRows      = 50_000      // rows
	firstRows     = 100         // rows, by which the bytes of a row are known
	longestRun    = time.Second // about: where the disk is slower, runs write fewer rows
	largerFlush   = 10          // times the rows of a run: a batch of weir's by default
)

// at grows the table to a multiple of the memory, and writes rows there.
func (w *overwriting) at(ctx context.Context, times float64, memory int64) (*OverwriteSize, error) {
	w.c.Log.Info(fmt.Sprintf("%s: a table of %g times the memory", w.db.Name(), times))
	if err := w.grow(ctx, int64(times*float64(memory))); err != nil {
		return nil, err
	}
	s := &OverwriteSize{Times: times, Written: min(w.most, w.rows)}
	var err error
	if s.Bytes, err = sizeOf(ctx, w.db); err != nil {
		return nil, err
	}
	if w.used, err = w.db.Usage(ctx); err != nil {
		return nil, err
	}
	s.Rows = w.rows + w.scattered
	kinds := []overwriteKind{
		{rows: w.fresh, batch: overwriteRows, cost: &s.Insert},
		{rows: w.between, batch: overwriteRows, cost: &s.Scattered, ratio: &s.ScatteredRatio},
		{rows: w.existing, batch: overwriteRows, cost: &s.Overwrite, ratio: &s.Ratio},
	}
	if err := w.turns(ctx, s.Written, kinds); err != nil {
		return nil, err
	}
	w.most = max(min(w.most, int(s.Overwrite.Rate.Median*longestRun.Seconds())), min(w.most, overwriteRows))
	return s, nil
}

// larger writes rows in flushes that are larger than those of the runs so far.
func (w *overwriting) larger(ctx context.Context) (all []OverwriteFlush, err error) {
	for _, n := range []int{w.c.Rows, largerFlush * w.c.Rows} {
		f := OverwriteFlush{Rows: min(n, w.rows)}
		w.c.Log.Info(fmt.Sprintf("%s: flushes of %s", w.db.Name(), quantity.Count(int64(f.Rows), "row")))
		err := w.turns(ctx, f.Rows, []overwriteKind{
			{rows: w.fresh, batch: f.Rows, cost: &f.Insert},
			{rows: w.existing, batch: f.Rows, cost: &f.Overwrite, ratio: &f.Ratio}})
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return all, nil
}

// An overwriteKind is one way to write rows.
type overwriteKind struct {
	rows  func(n int) []string // the keys
	batch int                  // rows of a flush
	cost  *ladder.Cost
	ratio *report.Spread // to the first kind; nil for that itself
	runs  []ladder.Timing
}

// turns writes n rows in each way, in turns.
func (w *overwriting) turns(ctx context.Context, n int, kinds []overwriteKind) error {
	for range w.c.Runs {
		for i := range kinds {
			k := &kinds[i]
			one, err := w.measured(ctx, k, n)
			if err != nil {
				return err
			}
			k.runs = append(k.runs, one)
		}
	}
	for _, k := range kinds {
		if *k.cost = ladder.CostOf(k.runs); k.ratio != nil {
			*k.ratio = ratioOf(kinds[0].runs, k.runs)
		}
	}
	return nil
}

// grow inserts rows until the table has a size.
func (w *overwriting) grow(ctx context.Context, bytes int64) error {
	for {
		has, err := sizeOf(ctx, w.db)
		if err != nil || has >= bytes && w.rows > 0 {
			return err
		}
		n := firstRows
		if w.rows > 0 {
			n = int(min(growRows, 1+float64(bytes-has)*float64(w.rows)/float64(max(has, 1))))
		}
		keys := w.fresh(n)
		if err := w.feed(keys); err != nil {
			return err
		}
		if err := w.sync(ctx, keys, growRows); err != nil {
			return err
		}
	}
}

// fresh are the keys of the next rows, which come to the end of the table and of its index.
func (w *overwriting) fresh(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = rowKey(w.rows + i)
	}
	w.rows += n
	w.added = n
	return keys
}

// between are keys of new rows, each behind that of a random row.
func (w *overwriting) between(n int) []string {
	keys := w.existing(n)
	for i := range keys {
		w.scattered++
		keys[i] = fmt.Sprintf("%s-%d", keys[i], w.scattered)
	}
	w.added = n
	return keys
}

// existing are the keys of random rows of the table.
func (w *overwriting) existing(n int) []string {
	chosen := make(map[int]bool, n)
	keys := make([]string, 0, n)
	for len(keys) < n {
		if i := w.random.IntN(w.rows); !chosen[i] {
			chosen[i] = true
			keys = append(keys, rowKey(i))
		}
	}
	w.added = 0
	return keys
}

// measured writes n rows, and returns what that cost.
func (w *overwriting) measured(ctx context.Context, k *overwriteKind, n int) (one ladder.Timing, err error) {
	keys := k.rows(n)
	if err := w.feed(keys); err != nil {
		return one, err
	}
	start := time.Now()
	if err := w.sync(ctx, keys, k.batch); err != nil {
		return one, err
	}
	took, before := time.Since(start), w.used
	w.used, err = w.db.Usage(ctx)
	return ladder.NewTiming(n, took, before, w.used), err
}

const overwriteColumns = 8 // of 32 bytes, beside the key

// feed makes a message for each key.
func (w *overwriting) feed(keys []string) error {
	return writeMessages(w.path, slices.Values(keys), overwriteColumns, w.random)
}

// sync has weir write the feed, and compares what became of its rows with what was meant.
func (w *overwriting) sync(ctx context.Context, keys []string, batch int) error {
	to, err := w.db.Sink(ctx, sink.Options{Level: sink.Full, Cache: overwriteCache})
	if err != nil {
		return err
	}
	w.syncs++ // each is a job of its own, for none resumes another
	p := status.New("t")
	c := pipeline.Config{Kind: file.Kind(file.Options{}), Sources: []string{w.path}, Job: fmt.Sprint(w.syncs), Limits: pipeline.Limits{BatchRows: batch, Buffer: 64 << 20}, Log: w.c.Log}
	table := mapping.Table{Name: "t", Key: []string{"id"}, Rules: fold.Rules{MaxColumns: overwriteColumns + 1}}
	if c.Plan, err = mapping.Compile(&mapping.Mapping{Tables: []mapping.Table{table}}, to.Caps().Limits); err != nil {
		return err
	}
	if err = ladder.RunJob(ctx, c, to, p); err != nil {
		return err
	}
	want := status.Rows{Inserted: int64(w.added), Updated: int64(len(keys) - w.added)}
	if got := p.Snapshot().Tables[0].Rows; got != want {
		return fmt.Errorf("weir wrote %+v, not %+v", got, want)
	}
	return nil
}
