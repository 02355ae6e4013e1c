package cli

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirsync/weir/internal/experiment"
)

func defaultQueue() experiment.QueueConfig {
	return experiment.QueueConfig{Dir: ".", Lines: 200_000, Requests: []int{1, 100}, For: time.Second, Runs: 3}
}

func (e *env) queueCommand() *cobra.Command {
	o := defaultQueue()
	c := &cobra.Command{
		Use:   "queue",
		Short: "Compare weir's spool with a table of SQLite as durable queues",
		Long: `Put lines into two durable queues and take them out: a table of SQLite (one
connection, explicit transactions, no VACUUM, WAL mode), and the log of weir's
spool (see --spool of weir sync). At synchronous full each request is on the
disk before the next one comes; at normal the spool syncs once a second, and
SQLite when it copies its log into the database; at off neither does. Then
processes that fill the queues are killed, and what they left is opened and
compared.

All ways put the same lines there: as many as the first, SQLite at synchronous
full, puts there within --for. The queues are files in a hidden folder in --dir,
which is removed at the end. "Syncs" are fsyncs; "written" is what went to
files. Each figure is the median of --runs runs, which take turns.`,
		Example: `  weir bench queue
  weir bench queue --dir /var/spool --lines 10000 --request 10 --html queue.html`,
		Args: cobra.NoArgs,
	}
	f := c.Flags()
	f.StringVar(&o.Dir, "dir", o.Dir, "a `FOLDER` on the disk that is measured")
	addWhole(f, &o.Lines, "lines", o.Lines, "put `N` lines into a queue at most")
	f.IntSliceVar(&o.Requests, "request", o.Requests, "how many lines are put there at once, `N,...`")
	f.DurationVar(&o.For, "for", o.For, "how long the first way puts lines into its queue at most; the others put as many there")
	addWhole(f, &o.Runs, "runs", o.Runs, "measure everything `N` times")
	return e.experiment(c, func(ctx context.Context, log *slog.Logger, _ []string) (benchResult, error) {
		if o.Lines < 1 || len(o.Requests) == 0 || slices.Min(o.Requests) < 1 || o.For <= 0 || o.Runs < 1 {
			return nil, usagef("--lines, --request, --for and --runs must be more than 0")
		}
		if most := slices.Max(o.Requests); most > o.Lines {
			return nil, usagef("--request %d is more than --lines %d", most, o.Lines)
		}
		return queue(ctx, o, log)
	})
}

// queue has this program fill the queues of processes that are killed.
func queue(ctx context.Context, o experiment.QueueConfig, log *slog.Logger) (*experiment.QueueResult, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	o.Log, o.Fill = log, func(ctx context.Context, queue, dir, level string) *exec.Cmd {
		c := exec.CommandContext(ctx, self, "bench", fillQueue, queue, dir, level)
		c.Args[0] = os.Args[0] // the name by which the program knows what it is
		return c
	}
	return experiment.Queue(ctx, o)
}

const fillQueue = "fill-queue"

// fillQueueCommand is what weir bench queue kills.
func (e *env) fillQueueCommand() *cobra.Command {
	return &cobra.Command{
		Use: fillQueue + " QUEUE DIR LEVEL", Hidden: true, Args: cobra.ExactArgs(3),
		RunE: func(c *cobra.Command, args []string) error {
			return experiment.FillQueue(c.Context(), args[0], args[1], args[2], e.stdout)
		},
	}
}
