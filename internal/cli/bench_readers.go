package cli

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirsync/weir/internal/experiment"
)

func defaultReaders() experiment.ReadersConfig {
	return experiment.ReadersConfig{Rows: 100_000, Rates: []int{1_000, 10_000, 50_000}, For: time.Second, Runs: 3}
}

func (e *env) readersCommand() *cobra.Command {
	var to string
	o := defaultReaders()
	c := &cobra.Command{
		Use:   "readers --to DEST",
		Short: "Show how many queries readers get while weir writes",
		Long: `Have 1 to --readers programs ask for rows by their keys, and for 100 rows in the
order of the key, each on a connection of its own: while weir is idle, and while
it updates random rows of the same table at the --writes rates. It shows queries
a second, latencies (p50, p99, the longest), how many queries were answered
while a flush was under way, and the size of the write-ahead log.

Your tables are not touched: SQLite gets a file of its own beside DEST, Postgres
a schema of its own, and both are removed at the end. Each figure is the median
of --runs runs, which take turns; latencies are of all runs. The readers are
goroutines of weir's own process, so that both share its cores.`,
		Example: `  weir bench readers --to flights.db
  weir bench readers --to postgres://weir@db.example/air --readers 8 --html readers.html`,
		Args: cobra.NoArgs,
	}
	f := c.Flags()
	f.StringVar(&to, "to", "", toHelp)
	addWhole(f, &o.Rows, "rows", o.Rows, "`N` rows of the table")
	addWhole(f, &o.Readers, "readers", o.Readers, "ask by 1, 2, 4 to `N` connections (default the number of cores)")
	f.IntSliceVar(&o.Rates, "writes", o.Rates, "updates a second that weir writes, `N,...`")
	f.DurationVar(&o.For, "for", o.For, "how long each number of readers asks each query")
	addWhole(f, &o.Runs, "runs", o.Runs, "measure everything `N` times")
	return e.experiment(c, func(ctx context.Context, log *slog.Logger, _ []string) (benchResult, error) {
		db, err := e.place(to)
		if err != nil {
			return nil, err
		}
		if o.Rows < 1 || o.Readers < 0 || o.For <= 0 || o.Runs < 1 || len(o.Rates) == 0 || slices.Min(o.Rates) < 1 {
			return nil, usagef("--rows, --readers, --writes, --for and --runs must be more than 0")
		}
		o.Log = log
		return experiment.Readers(ctx, o, db)
	})
}
