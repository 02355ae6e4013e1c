package cli

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/weirsync/weir/internal/config"
	"github.com/weirsync/weir/internal/experiment"
)

func defaultOverwrite() experiment.OverwriteConfig {
	return experiment.OverwriteConfig{Rows: 10_000, Runs: 3}
}

func (e *env) overwriteCommand() *cobra.Command {
	var to string
	var memory config.Size
	o := defaultOverwrite()
	c := &cobra.Command{
		Use:   "overwrite [--to DEST]",
		Short: "Compare inserting with overwriting as a table outgrows memory",
		Long: `Grow a table to 0.25, 0.5, 1, 2, 4 and 6 times the memory that its database has,
and measure at each size how fast weir inserts rows whose keys are behind all
others or in between, and overwrites random ones, with --prefetch off, auto and
on; at last also in larger flushes, up to weir's own of 100,000 rows.

Memory is limited for SQLite and for a private Postgres server: the system's
cache and the server's shared buffers hold --memory of the files together, by a
control group of Linux. That needs root or a group that is yours ("systemd-run
--user --scope weir bench overwrite"); else a warning says that it is not
limited. The private server does not vacuum. A server that runs already is not
limited: there the table's size is compared with shared_buffers, or with
--memory.

Without --to it measures SQLite and, where Postgres is installed (PG_BIN names
its bin folder), a private server, in TMPDIR or /var/tmp. Your tables are not
touched: SQLite gets a file of its own beside DEST, Postgres a schema of its
own, and both are removed at the end. Each figure is the median of --runs runs,
which take turns.`,
		Example: `  weir bench overwrite
  weir bench overwrite --to flights.db --html overwrite.html
  weir bench overwrite --to postgres://weir@db.example/air --memory 32MiB`,
		Args: cobra.NoArgs,
	}
	f := c.Flags()
	f.StringVar(&to, "to", "", toHelp)
	f.Var(&memory, "memory", "what the table outgrows (default 64MiB; of a server that runs already, its shared_buffers)")
	f.Lookup("memory").DefValue = "0" // 0B is printed as a default
	addWhole(f, &o.Rows, "rows", o.Rows, "write at most `N` rows in a run")
	addWhole(f, &o.Runs, "runs", o.Runs, "measure everything `N` times")
	f.BoolVar(&o.Unlimited, "unlimited", false, "do not limit memory: the system's cache may hold the table")
	return e.experiment(c, func(ctx context.Context, log *slog.Logger, _ []string) (benchResult, error) {
		if o.Rows < 1 || o.Runs < 1 {
			return nil, usagef("--rows and --runs must be more than 0")
		}
		dbs, err := e.overwritten(to, int64(memory), log)
		if err != nil {
			return nil, err
		}
		o.Memory, o.Log = int64(memory), log
		return experiment.Overwrite(ctx, o, dbs...)
	})
}

// overwritten are the databases that are measured.
func (e *env) overwritten(to string, memory int64, log *slog.Logger) ([]experiment.Database, error) {
	if to != "" {
		db, err := e.place(to)
		return []experiment.Database{db}, err
	}
	dir := scratch()
	db, err := e.place(filepath.Join(dir, "t.db"))
	dbs := []experiment.Database{db}
	// A quarter of the memory is the server's own, as is usual; the rest is the system's cache. Vacuuming reads the whole
	// table at times that differ from run to run: it doubled what an overwritten row read.
	if db, ok := experiment.Private(dir, "autovacuum=off", fmt.Sprintf("shared_buffers=%dkB", max(cmp.Or(memory, experiment.OverwriteMemory)>>12, 128))); ok {
		dbs = append(dbs, db)
	} else {
		log.Warn(fmt.Sprintf("Postgres is skipped: %v", errNoPostgres))
	}
	return dbs, err
}
