package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirsync/weir/internal/experiment"
	"github.com/weirsync/weir/internal/report"
)

// A story is an experiment of weir bench, and the public report that it is about.
type story struct {
	name        string // of the command
	text        string // in two sentences, with the figure
	source, url string
	run         func(a *allBench, ctx context.Context) (benchResult, error)
}

// stories are those that weir bench all runs, in this order.
var stories = []story{
	{"ladder",
		"Firestarter keeps a table of flights in SQLite from a feed of sparse updates, and wrote 20 updates a second while each was a look-up, a write and a transaction. With rows cached and written in batches it wrote 8,000.",
		"FlightAware: Making SQLite Upserts Snappy (with Python and SQLAlchemy)", "https://flightaware.engineering/making-sqlite-upserts-snappy-with-python-and-sqlalchemy/", (*allBench).ladder},
	{"overwrite",
		"Writing documents that may exist was much slower in ArangoDB than inserting new ones, of which a batch of some hundred thousand took 30 s, although about as much is written. What is overwritten has to be read first, which is a random read of the disk for each once the table has outgrown memory.",
		"Max Neunhöffer: Surprisingly slow UPSERT performance: A Quest for Clarity", "https://medium.com/@neunhoef/surprisingly-slow-upsert-performance-a-quest-for-clarity-9d188ec5004c", (*allBench).overwrite},
	{"readers",
		"Expensify's Bedrock got 4,000,000 queries a second from one database of SQLite on a server with 192 cores. Readers of SQLite do not wait for each other, so that their queries grow with the cores.",
		"Expensify: Scaling SQLite to 4M QPS on a Single Server (EC2 vs Bare Metal)", "https://use.expensify.com/blog/scaling-sqlite-to-4m-qps-on-a-single-server", (*allBench).readers},
	{"roundtrips",
		"Benchling creates thousands of rows at once through an ORM, which made a round trip for each row whose key the database generates: 1,000 rows took 4.9 s at 3 ms. With the keys fetched together and the rows inserted together, two round trips, they took 0.14 s.",
		"Benchling: sqlalchemy_batch_inserts: a module for when you’re inserting thousands of rows and it’s slow", "https://benchling.engineering/sqlalchemy-batch-inserts-a-module-for-when-youre-inserting-thousands-of-rows-and-it-s-slow-16ece0ef5bf7", (*allBench).roundtrips},
	{"queue",
		"WhyLabs keeps requests in a table of SQLite as a queue until they are merged, and found that transactions that commit by themselves, a connection for each request, and VACUUM made it slow. Explicit transactions on one connection without VACUUM raised its transactions a second by orders of magnitude.",
		"WhyLabs: Small Changes for Big SQLite Performance Increases", "https://whylabs.ai/blog/posts/small-changes-for-big-sqlite-performance-increases", (*allBench).queue},
}

// allBench is what the experiments of weir bench all share.
type allBench struct {
	e      *env
	feed   string // "" is a generated one
	to     string // "" is a database of the experiment's own
	server bool   // that to names
	quick  bool
	log    *slog.Logger
}

func (e *env) allCommand() *cobra.Command {
	a := &allBench{e: e}
	c := &cobra.Command{
		Use:   "all [FEED] [--to DEST]",
		Short: "Run all experiments, and make one page of the stories that they are about",
		Long: `Run the experiments of weir bench one after the other, with the defaults of
their commands, and show for each the public report that it is about, with its
figure and yours. It takes some ten minutes; --quick takes seconds, and its
figures mean little.

FEED is for the ladder, which takes 500,000 messages of it at most; without one
a feed is generated. Without --to they measure SQLite in TMPDIR or /var/tmp, and
a private Postgres server, where Postgres is installed (PG_BIN names its bin
folder). Your tables are not touched. Where there is no Postgres the page says
what was not measured.`,
		Example: `  weir bench all --html report.html
  weir bench all flights.jsonl.gz --to postgres://weir@db.example/air --quick`,
		Args: cobra.MaximumNArgs(1),
	}
	f := c.Flags()
	f.StringVar(&a.to, "to", "", toHelp)
	f.BoolVar(&a.quick, "quick", false, "measure as little as possible, to see what there is")
	return e.experiment(c, func(ctx context.Context, log *slog.Logger, args []string) (benchResult, error) {
		if a.log = log; len(args) > 0 {
			a.feed = args[0]
		}
		if a.to != "" {
			d, err := e.destination(a.to)
			if err != nil {
				return nil, err
			}
			a.server = d.Files == nil
		}
		return a.run(ctx, stories)
	})
}

// An allResult is what all experiments measured.
type allResult struct {
	Machine string        `json:"machine"`
	Stories []storyResult `json:"stories"`
	failed  error         // of experiments that might have run
}

func (r *allResult) failure() error { return r.failed }

// A storyResult is one experiment's.
type storyResult struct {
	Name   string      `json:"experiment"`
	Story  string      `json:"story"`
	Source string      `json:"source"`
	URL    string      `json:"url"`
	Result benchResult `json:"result"` // nil where it could not run
	Error  string      `json:"error,omitempty"`
}

// run runs the experiments. One that fails is part of the result; an interrupt and wrong usage end all.
func (a *allBench) run(ctx context.Context, stories []story) (benchResult, error) {
	r := &allResult{Machine: fmt.Sprintf("%s, %d CPUs, %s", strings.TrimSpace(a.e.versionText()), runtime.NumCPU(), time.Now().Format(time.DateOnly))}
	for i, s := range stories {
		a.log.Info(fmt.Sprintf("%s (%d of %d)", s.name, i+1, len(stories)))
		one := storyResult{Name: s.name, Story: s.text, Source: s.source, URL: s.url}
		result, err := s.run(a, ctx)
		switch {
		case ctx.Err() != nil || err != nil && a.e.exitCode(err) == exitUsage:
			return nil, cmp.Or(ctx.Err(), err)
		case err != nil:
			if one.Error = err.Error(); errors.Is(err, errNoPostgres) {
				a.log.Warn(fmt.Sprintf("%s is skipped: %v", s.name, err))
			} else {
				r.failed = errors.Join(r.failed, fmt.Errorf("%s: %w", s.name, err))
			}
		default:
			one.Result = result
		}
		r.Stories = append(r.Stories, one)
	}
	return r, nil
}

// Page is the result for people.
func (r *allResult) Page() *report.Page {
	p := &report.Page{Title: "weir: the stories, on this machine", Measured: r.Machine}
	for i := range r.Stories {
		s := &r.Stories[i]
		page := &report.Page{Title: "weir: " + s.Name, Measured: "It was not measured: " + s.Error}
		if s.Result != nil {
			page = s.Result.Page()
		}
		p.Chapters = append(p.Chapters, report.Chapter{Story: s.Story, Source: s.Source, URL: s.URL, Page: page})
	}
	return p
}

// place is where experiments of one database write.
func (a *allBench) place() (experiment.Database, error) {
	return a.e.place(cmp.Or(a.to, filepath.Join(scratch(), "t.db")))
}

func (a *allBench) ladder(ctx context.Context) (benchResult, error) {
	o := defaultLadder()
	o.Source, o.Log = a.feed, a.log
	if a.quick {
		o.Messages, o.For, o.Runs = 1000, 20*time.Millisecond, 1
	}
	db, err := a.place()
	if err != nil {
		return nil, err
	}
	return experiment.Ladder(ctx, o, db)
}

func (a *allBench) overwrite(ctx context.Context) (benchResult, error) {
	o := defaultOverwrite()
	if o.Log = a.log; a.quick {
		o.Memory, o.Rows, o.Runs, o.Unlimited = 1<<20, 500, 1, true
	}
	dbs, err := a.e.overwritten(a.to, o.Memory, a.log)
	if err != nil {
		return nil, err
	}
	return experiment.Overwrite(ctx, o, dbs...)
}

func (a *allBench) readers(ctx context.Context) (benchResult, error) {
	o := defaultReaders()
	if o.Log = a.log; a.quick {
		o.Rows, o.Readers, o.Rates, o.For, o.Runs = 1000, 2, []int{1000}, 20*time.Millisecond, 1
	}
	db, err := a.place()
	if err != nil {
		return nil, err
	}
	return experiment.Readers(ctx, o, db)
}

func (a *allBench) roundtrips(ctx context.Context) (benchResult, error) {
	o := defaultRoundtrips()
	if o.Log = a.log; a.quick {
		o.Rows, o.For, o.Runs, o.Tables, o.Delays = 20, 50*time.Millisecond, 1, []int{1, 2}, []time.Duration{0, time.Millisecond}
	}
	to := a.to
	if !a.server {
		to = ""
	}
	db, err := a.e.distant(to)
	if err != nil {
		return nil, err
	}
	return experiment.Roundtrips(ctx, o, db)
}

func (a *allBench) queue(ctx context.Context) (benchResult, error) {
	o := defaultQueue()
	if o.Dir = scratch(); a.quick {
		o.Lines, o.For, o.Runs = 100, 50*time.Millisecond, 1
	}
	return queue(ctx, o, a.log)
}
