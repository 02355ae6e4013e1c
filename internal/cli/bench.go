package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirsync/weir/internal/ladder"
	"github.com/weirsync/weir/internal/quantity"
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
		Long: `Write the first messages of FEED into DEST in seven ways: from a look-up and a
write in a transaction for each message, as most programs begin, to weir. Then
sync them with several batch periods and levels of --synchronous, and name the
settings that meet --lag and --safe.

Your tables are not touched: SQLite gets a file of its own beside DEST, Postgres a
schema of its own, and both are removed at the end. SQLite is in WAL mode
throughout. "Syncs" are fsyncs of the database; "written" is what went to SQLite's
files, or to Postgres' log. Each figure is of one run: on a busy machine, repeat
it.

Exit codes: 0 done, 1 failed, 2 wrong usage.`,
		Example: `  weir bench ladder flights.jsonl.gz --to flights.db
  weir bench ladder flights.jsonl.gz --to postgres://weir@db.example/air --html ladder.html
  weir bench ladder flights.jsonl.gz --to flights.db --lag 500ms --safe`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			o.Source = args[0]
			r, err := e.ladder(c.Context(), o, to)
			if err != nil {
				return err
			}
			if html != "" {
				if err := writeHTML(html, r); err != nil {
					return err
				}
			}
			if asJSON {
				return json.NewEncoder(e.stdout).Encode(r)
			}
			return e.printLadder(r)
		},
	}
	f := c.Flags()
	f.StringVar(&to, "to", "", toHelp)
	f.StringVar(&o.Key, "key", "id", "the field that identifies a row")
	f.IntVar(&o.Messages, "messages", 1_000_000, "use at most this many messages of the feed")
	f.DurationVar(&o.For, "for", 10*time.Second, "how long each of the first six ways may run")
	f.DurationVar(&o.Lag, "lag", 2*time.Second, "how far the table may be behind the feed")
	f.BoolVar(&o.Safe, "safe", false, "only settings that lose nothing in a power cut")
	f.StringVar(&html, "html", "", "write a page with plots to this file")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	f.SortFlags = false
	return c
}

func (e *env) ladder(ctx context.Context, o ladder.Config, to string) (*ladder.Result, error) {
	d, err := e.destination(to)
	if err != nil {
		return nil, err
	}
	if o.Messages < 1 || o.For <= 0 || o.Lag <= 0 {
		return nil, usagef("--messages, --for and --lag must be more than 0")
	}
	o.Log = slog.New(&textHandler{w: e.line, level: e})
	db, err := ladder.Open(d.Name, d.dest)
	if err != nil {
		return nil, err
	}
	return ladder.Run(ctx, o, db)
}

func writeHTML(path string, r *ladder.Result) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(r.HTML(f), f.Close())
}

func (e *env) printLadder(r *ladder.Result) error {
	fmt.Fprintf(e.stdout, "%s\n%s messages of %s: %s ids, %d columns\n\n", r.Database, quantity.Grouped(int64(r.Messages)), r.Feed, quantity.Grouped(int64(r.IDs)), r.Columns)
	t := tabwriter.NewWriter(e.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "WAY\tMESSAGES/S\tSPEED-UP\tMESSAGES\tSYNCS\tWRITTEN\tA POWER CUT TAKES")
	for i := range r.Rungs {
		g := &r.Rungs[i]
		fmt.Fprintf(t, "%d %s\t%s\t%.1f\t%s\t%s\t%s\t%s\n", i+1, g.Name, quantity.Grouped(int64(g.Rate)), g.Speedup, quantity.Grouped(int64(g.Messages)), g.SyncsText(), g.WrittenText(), g.Lost)
	}
	fmt.Fprintln(t, "\nSYNCHRONOUS\tBATCH PERIOD\tMESSAGES/S\tFLUSHES\tSYNCS\tWRITTEN\tLAG AT MOST\tA POWER CUT TAKES")
	for i := range r.Sweep {
		s := &r.Sweep[i]
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n", s.Level, s.Period, quantity.Grouped(int64(s.Rate)), s.Flushes, s.SyncsText(), s.WrittenText(), s.Lag.Round(time.Millisecond), s.Lost)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(e.stdout, "\n%s\n", r.AdviceText())
	return err
}
