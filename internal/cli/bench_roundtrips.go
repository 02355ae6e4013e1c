package cli

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirsync/weir/internal/experiment"
)

func defaultRoundtrips() experiment.RoundtripsConfig {
	return experiment.RoundtripsConfig{Rows: 1000, Tables: []int{1, 3, 5}, Delays: []time.Duration{0, 3 * time.Millisecond, 90 * time.Millisecond}, For: 2 * time.Second, Runs: 3}
}

func (e *env) roundtripsCommand() *cobra.Command {
	var to string
	o := defaultRoundtrips()
	c := &cobra.Command{
		Use:   "roundtrips [--to DEST]",
		Short: "Show what the distance to the database costs, and how many round trips are needed",
		Long: `Write messages that are rows of several tables, with foreign keys to keys that
the database generates, into Postgres: row by row, by a statement for each
table, and by weir. All connections go through a proxy in this process that adds
some milliseconds to each round trip, and counts them: a round trip begins when
the client sends something after the server has answered all that it sent
before.

Without --to it measures a private server, where Postgres is installed (PG_BIN
names its bin folder). Your tables are not touched: the experiment has a schema
of its own, which is removed at the end. Each figure is the median of --runs
runs, which take turns. Row by row stops after --for; its rate is that of the
rows that it wrote.`,
		Example: `  weir bench roundtrips
  weir bench roundtrips --to postgres://weir@db.example/air --rows 200 --delay 1ms,20ms --html roundtrips.html`,
		Args: cobra.NoArgs,
	}
	f := c.Flags()
	f.StringVar(&to, "to", "", toHelp)
	addWhole(f, &o.Rows, "rows", o.Rows, "write `N` rows of each table")
	f.IntSliceVar(&o.Tables, "tables", o.Tables, "how many tables a message is a row of, `N,...`")
	f.DurationSliceVar(&o.Delays, "delay", o.Delays, "what is added to each round trip, `DURATION,...`")
	f.DurationVar(&o.For, "for", o.For, "how long a run that writes row by row takes at most")
	addWhole(f, &o.Runs, "runs", o.Runs, "measure everything `N` times")
	return e.experiment(c, func(ctx context.Context, log *slog.Logger, _ []string) (benchResult, error) {
		if o.Rows < 1 || o.For <= 0 || o.Runs < 1 || len(o.Tables) == 0 || slices.Min(o.Tables) < 1 || len(o.Delays) == 0 || slices.Min(o.Delays) < 0 {
			return nil, usagef("--rows, --tables, --for and --runs must be more than 0, and --delay not less")
		}
		db, err := e.distant(to)
		if err != nil {
			return nil, err
		}
		o.Log = log
		return experiment.Roundtrips(ctx, o, db)
	})
}

var errNoPostgres = errors.New("it needs Postgres: --to postgres://…, or Postgres' programs (PG_BIN names their folder)")

// distant is the database that --to names, or a private server.
func (e *env) distant(to string) (experiment.Database, error) {
	if to != "" {
		return e.place(to)
	}
	db, ok := experiment.Private(scratch())
	if !ok {
		return nil, errNoPostgres
	}
	return db, nil
}
