package cli

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirsync/weir/internal/ladder"
	"github.com/weirsync/weir/internal/report"
)

func (e *env) benchCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure on your own machine, database and data",
		Args:  noCommand,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(e.ladderCommand())
	return c
}

func (e *env) ladderCommand() *cobra.Command {
	var to, html string
	var asJSON bool
	o := ladder.Config{}
	c := &cobra.Command{
		Use:   "ladder FEED --to DEST",
		Short: "Show what each step of batching is worth, and which settings to use",
		Long: `Write messages of FEED into DEST in seven ways: from a look-up and a write in a
transaction for each message, as most programs begin, to weir. All ways write the
same messages: as many as the first of them writes within --for. Then sync all
messages of FEED with several batch periods and levels of --synchronous, and name
the settings that meet --lag and lose nothing in a power cut.

Your tables are not touched: SQLite gets a file of its own beside DEST, Postgres a
schema of its own, and both are removed at the end. SQLite is in WAL mode
throughout. "Syncs" are fsyncs of the database; "written" is what went to SQLite's
files, or to Postgres' log. Each figure is the median of --runs runs, which take
turns; beside it stand the least and the most.

Exit codes: 0 done, 1 failed, 2 wrong usage.`,
		Example: `  weir bench ladder flights.jsonl.gz --to flights.db
  weir bench ladder flights.jsonl.gz --to postgres://weir@db.example/air --html ladder.html
  weir bench ladder flights.jsonl.gz --to flights.db --lag 500ms --unsafe`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			o.Source = args[0]
			r, err := e.ladder(c.Context(), o, to)
			if err != nil {
				return err
			}
			page := r.Page()
			if html != "" {
				err = writeHTML(html, page) // without it, the rest is printed: it took minutes
			}
			if asJSON {
				return errors.Join(err, json.NewEncoder(e.stdout).Encode(r))
			}
			return errors.Join(err, page.Text(e.stdout))
		},
	}
	f := c.Flags()
	f.StringVar(&to, "to", "", toHelp)
	f.StringVar(&o.Key, "key", "id", "the `FIELD` that identifies a row")
	f.IntVar(&o.Messages, "messages", 1_000_000, "use at most `N` messages of the feed")
	f.DurationVar(&o.For, "for", 3*time.Second, "how long the first way writes; the others write as many messages")
	f.IntVar(&o.Runs, "runs", 3, "measure everything `N` times")
	f.DurationVar(&o.Lag, "lag", 2*time.Second, "how far the table may be behind the feed")
	f.BoolVar(&o.Unsafe, "unsafe", false, "advise also settings that lose commits in a power cut")
	f.StringVar(&html, "html", "", "write a page with plots to this `FILE`")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	f.SortFlags = false
	return c
}

func (e *env) ladder(ctx context.Context, o ladder.Config, to string) (*ladder.Result, error) {
	d, err := e.destination(to)
	if err != nil {
		return nil, err
	}
	if o.Messages < 1 || o.For <= 0 || o.Runs < 1 || o.Lag <= 0 {
		return nil, usagef("--messages, --for, --runs and --lag must be more than 0")
	}
	o.Log = slog.New(&textHandler{w: e.line, level: e})
	db, err := ladder.Open(d.Name, d.dest)
	if err != nil {
		return nil, err
	}
	return ladder.Run(ctx, o, db)
}

func writeHTML(path string, p *report.Page) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(p.HTML(f), f.Close())
}
