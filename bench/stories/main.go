// Stories measures on this machine what engineering posts reported about upserts elsewhere: overwriting past
// memory, readers next to a writer, round trips, and a durable queue. docs/dev/stories.md says what was
// measured and which posts they are. The ladder measures steps of batching with your own feed: docs/dev/ladder.md.
//
//	go run ./bench/stories [-to DEST] [-json] [-quick] overwrite|readers|roundtrips|queue
//	go run ./bench/stories [-to DEST] [-json] [-key FIELD] [-lag 2s] … ladder [FEED]
//
// Your tables are not touched: a story writes to a folder or schema of its own, and removes it at the end.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/weirsync/weir/bench/ladder"
	"github.com/weirsync/weir/bench/report"
	"github.com/weirsync/weir/internal/source/file"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "stories:", err)
		os.Exit(1)
	}
}

// options are the flags of all stories.
type options struct {
	to     string // "": an SQLite file, or a private Postgres server, in dir
	dir    string
	memory int64 // bytes that a control group gives this process; 0: no limit
	quick  bool  // as little as possible, to see that it runs
	ladder ladder.Config
	log    *slog.Logger
}

// A result is printed as JSON, or as a page for people.
type result interface{ Page() *report.Page }

var stories = map[string]func(ctx context.Context, o options) (result, error){
	"overwrite": overwrite, "readers": readers, "roundtrips": roundtrips, "queue": queueStory, "ladder": climb,
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 4 && args[0] == fillQueue {
		return FillQueue(ctx, args[1], args[2], args[3], out)
	}
	o := options{log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	l := &o.ladder
	f := flag.NewFlagSet("stories", flag.ContinueOnError)
	f.StringVar(&o.to, "to", "", "an SQLite file, whose folder is used, or a Postgres server")
	f.StringVar(&o.dir, "dir", scratch(), "a folder on the disk that is measured, for databases and queues")
	f.Int64Var(&o.memory, "memory", 0, "the bytes to which a control group limits this process, for overwrite")
	f.BoolVar(&o.quick, "quick", false, "measure as little as possible")
	asJSON := f.Bool("json", false, "print JSON")
	f.StringVar(&l.Key, "key", "id", "ladder: the field that identifies a row")
	f.IntVar(&l.Messages, "messages", 500_000, "ladder: use at most this many messages of the feed")
	f.DurationVar(&l.For, "for", 3*time.Second, "ladder: how long the first way writes; the others write as many messages")
	f.IntVar(&l.Runs, "runs", 3, "ladder: measure everything this often")
	f.DurationVar(&l.Lag, "lag", 2*time.Second, "ladder: how far the table may be behind the feed")
	f.BoolVar(&l.Unsafe, "unsafe", false, "ladder: also advise settings that lose commits in a power cut")
	if err := f.Parse(args); err != nil {
		return err
	}
	story := stories[f.Arg(0)]
	if story == nil || f.NArg() != 1 && (f.Arg(0) != "ladder" || f.NArg() > 2) {
		return errors.New("name one story: overwrite, readers, roundtrips, queue or ladder [FEED]")
	}
	l.Source = f.Arg(1)
	r, err := story(ctx, o)
	if err != nil {
		return err
	}
	if *asJSON {
		return json.NewEncoder(out).Encode(r)
	}
	return r.Page().Text(out)
}

func climb(ctx context.Context, o options) (result, error) {
	c := o.ladder
	if c.Log, c.Kind = o.log, file.Kind(file.Options{}); o.quick {
		c.For, c.Messages, c.Runs = 20*time.Millisecond, 100, 1
	}
	if c.Messages < 1 || c.For <= 0 || c.Runs < 1 || c.Lag <= 0 {
		return nil, errors.New("-messages, -for, -runs and -lag must be more than 0")
	}
	db, err := open(cmp.Or(o.to, filepath.Join(o.dir, "t.db")))
	if err != nil {
		return nil, err
	}
	return ladder.Run(ctx, c, db)
}

func overwrite(ctx context.Context, o options) (result, error) {
	c := OverwriteConfig{Memory: o.memory, Limited: o.memory > 0, Rows: 10_000, Runs: 3, Log: o.log}
	if o.quick {
		c.Memory, c.Limited, c.Rows, c.Runs = 1<<20, false, 500, 1
	}
	db, err := open(cmp.Or(o.to, filepath.Join(o.dir, "t.db")))
	if err != nil {
		return nil, err
	}
	dbs := []ladder.Database{db}
	if o.to == "" {
		// A quarter of the memory is the server's own, as is usual; the rest is the system's cache. A vacuum would read
		// the table at times that differ from run to run: it doubled what an overwritten row read.
		server, err := private(o.dir, "autovacuum=off", fmt.Sprintf("shared_buffers=%dkB", max(cmp.Or(c.Memory, OverwriteMemory)>>12, 128)))
		if err != nil {
			return nil, err
		}
		dbs = append(dbs, server)
	}
	return Overwrite(ctx, c, dbs...)
}

func readers(ctx context.Context, o options) (result, error) {
	c := ReadersConfig{Rows: 100_000, Rates: []int{1_000, 10_000, 50_000}, For: time.Second, Runs: 3, Log: o.log}
	if o.quick {
		c.Rows, c.Readers, c.Rates, c.For, c.Runs = 1000, 2, []int{1000}, 20*time.Millisecond, 1
	}
	db, err := open(cmp.Or(o.to, filepath.Join(o.dir, "t.db")))
	if err != nil {
		return nil, err
	}
	return Readers(ctx, c, db)
}

func roundtrips(ctx context.Context, o options) (result, error) {
	c := RoundtripsConfig{Rows: 1000, Tables: []int{1, 3, 5}, Delays: []time.Duration{0, 3 * time.Millisecond, 90 * time.Millisecond}, For: 2 * time.Second, Runs: 3, Log: o.log}
	if o.quick {
		c.Rows, c.For, c.Runs, c.Tables, c.Delays = 20, 50*time.Millisecond, 1, []int{1, 2}, []time.Duration{0, time.Millisecond}
	}
	db, err := private(o.dir)
	if o.to != "" {
		db, err = open(o.to)
	}
	if err != nil {
		return nil, err
	}
	return Roundtrips(ctx, c, db)
}

// fillQueue is the first argument of a process that fills a queue until it is killed.
const fillQueue = "fill-queue"

func queueStory(ctx context.Context, o options) (result, error) {
	c := QueueConfig{Dir: o.dir, Lines: 200_000, Requests: []int{1, 100}, For: time.Second, Runs: 3, Log: o.log}
	if o.quick {
		c.Lines, c.For, c.Runs = 100, 50*time.Millisecond, 1
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c.Fill = func(ctx context.Context, queue, dir, level string) *exec.Cmd {
		return exec.CommandContext(ctx, self, fillQueue, queue, dir, level)
	}
	return Queue(ctx, c)
}
