package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirsync/weir/internal/experiment"
	"github.com/weirsync/weir/internal/report"
)

func (e *env) benchCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure on your own machine, database and data",
		Args:  noCommand,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(e.allCommand(), e.ladderCommand(), e.overwriteCommand(), e.readersCommand(), e.roundtripsCommand(), e.queueCommand(), e.fillQueueCommand())
	return c
}

// A benchResult is printed as JSON, and its page for people. It may have a failure, too, for which the command ends
// with an error.
type benchResult interface{ Page() *report.Page }

// experiment has a command run an experiment and print what it measured, with the flags --json and
// --html behind its own.
func (e *env) experiment(c *cobra.Command, run func(ctx context.Context, log *slog.Logger, args []string) (benchResult, error)) *cobra.Command {
	var html string
	var asJSON bool
	c.Long += "\n\nExit codes: 0 done, 1 failed, 2 wrong usage."
	c.RunE = func(c *cobra.Command, args []string) error {
		if _, err := os.Stat(filepath.Dir(html)); err != nil { // before it takes minutes
			return usageError{fmt.Errorf("--html: %w", err)}
		}
		r, err := run(c.Context(), slog.New(&textHandler{w: e.line, level: e}), args)
		if err != nil {
			return err
		}
		if f, ok := r.(interface{ failure() error }); ok {
			err = f.failure()
		}
		page := r.Page()
		if html != "" {
			err = errors.Join(err, writeHTML(html, page)) // without it, the rest is printed: it took minutes
		}
		if asJSON {
			return errors.Join(err, json.NewEncoder(e.stdout).Encode(r))
		}
		return errors.Join(err, page.Text(e.stdout))
	}
	f := c.Flags()
	f.StringVar(&html, "html", "", "write a page with plots to this `FILE`")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	f.SortFlags = false
	return c
}

func writeHTML(path string, p *report.Page) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(p.HTML(f), f.Close())
}

// place is where an experiment writes in the database that --to names.
func (e *env) place(to string) (experiment.Database, error) {
	d, err := e.destination(to)
	if err != nil {
		return nil, err
	}
	return experiment.Open(d.Name, d.dest)
}

// scratch is a folder for the databases of experiments that name none.
func scratch() string {
	dir := os.TempDir()
	if _, err := os.Stat("/var/tmp"); err == nil && dir == "/tmp" { // which may lie in memory
		dir = "/var/tmp"
	}
	return dir
}

func defaultLadder() experiment.LadderConfig {
	return experiment.LadderConfig{Key: "id", Messages: 500_000, For: 3 * time.Second, Runs: 3, Lag: 2 * time.Second}
}

func (e *env) ladderCommand() *cobra.Command {
	var to string
	o := defaultLadder()
	c := &cobra.Command{
		Use:   "ladder FEED --to DEST",
		Short: "Show what each step of batching is worth, and which settings to use",
		Long: `Write messages of FEED into DEST in seven ways: from a look-up and a write in a
transaction for each message, as most programs begin, to weir. All ways write
the same messages: as many as the first of them writes within --for. Then sync
all messages of FEED with several batch periods and levels of --synchronous, and
name the settings that meet --lag and lose nothing in a power cut.

Your tables are not touched: SQLite gets a file of its own beside DEST, Postgres
a schema of its own, and both are removed at the end. SQLite is in WAL mode
throughout. "Syncs" are fsyncs of the database; "written" is what went to
SQLite's files, or to Postgres' log. Each figure is the median of --runs runs,
which take turns; beside it stand the least and the most.`,
		Example: `  weir bench ladder flights.jsonl.gz --to flights.db
  weir bench ladder flights.jsonl.gz --to postgres://weir@db.example/air --html ladder.html
  weir bench ladder flights.jsonl.gz --to flights.db --lag 500ms --unsafe`,
		Args: cobra.ExactArgs(1),
	}
	f := c.Flags()
	f.StringVar(&to, "to", "", toHelp)
	f.StringVar(&o.Key, "key", o.Key, "the `FIELD` that identifies a row")
	addWhole(f, &o.Messages, "messages", o.Messages, "use at most `N` messages of the feed")
	f.DurationVar(&o.For, "for", o.For, "how long the first way writes; the others write as many messages")
	addWhole(f, &o.Runs, "runs", o.Runs, "measure everything `N` times")
	f.DurationVar(&o.Lag, "lag", o.Lag, "how far the table may be behind the feed")
	f.BoolVar(&o.Unsafe, "unsafe", false, "advise also settings that lose commits in a power cut")
	return e.experiment(c, func(ctx context.Context, log *slog.Logger, args []string) (benchResult, error) {
		db, err := e.place(to)
		if err != nil {
			return nil, err
		}
		if o.Messages < 1 || o.For <= 0 || o.Runs < 1 || o.Lag <= 0 {
			return nil, usagef("--messages, --for, --runs and --lag must be more than 0")
		}
		o.Source, o.Log = args[0], log
		return experiment.Ladder(ctx, o, db)
	})
}
