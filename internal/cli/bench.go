package cli

import (
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirsync/weir/internal/ladder"
	"github.com/weirsync/weir/internal/report"
	"github.com/weirsync/weir/internal/spec"
)

func (e *env) benchCommand() *cobra.Command {
	var html string
	sp := e.newSpec()
	var asJSON bool
	o := ladder.Config{Key: "id", Messages: 500_000, For: 3 * time.Second, Runs: 3, Lag: 2 * time.Second}
	c := &cobra.Command{
		Use:   "bench [FEED] --to DEST",
		Short: "Show what each step of batching gains on your machine, and which settings to use",
		Long: `Write messages of FEED into DEST in seven ways. The first one uses a transaction
per message, with a row lookup and a write, as most programs begin; the last one
is weir. All ways write the same messages: as many as the first one writes within
--for. Then sync all messages of FEED with several batch periods and levels of
--synchronous, and name the settings that meet --lag and lose nothing in a power
cut. Without FEED the messages are generated.

Your tables are not touched: the benchmark uses a separate SQLite file next to
DEST, or a separate Postgres schema, and removes it at the end. SQLite is in WAL
mode throughout. "Syncs" are fsyncs of the database; "written" is what went to
SQLite's files, or to Postgres' log. The runs of all ways alternate. Each figure
is the median of --runs runs, with the minimum and maximum next to it.

Exit codes: 0 done, 1 failed, 2 wrong usage.`,
		Example: `  weir bench flights.jsonl.gz --to flights.db
  weir bench flights.jsonl.gz --to postgres://weir@db.example/air --html bench.html
  weir bench flights.jsonl.gz --to flights.db --lag 500ms --unsafe`,
		Args: cobra.MaximumNArgs(1),
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := e.load(c, sp); err != nil {
			return err
		}
		db, err := benchDatabase(sp)
		if err != nil {
			return err
		}
		if o.Messages < 1 || o.For <= 0 || o.Runs < 1 || o.Lag <= 0 {
			return usagef("--messages, --for, --runs and --lag must be more than 0")
		}
		if _, err := os.Stat(filepath.Dir(html)); err != nil { // fail before it takes minutes
			return usagef("--html: %w", err)
		}
		if o.Log = slog.New(&textHandler{w: e.line, level: e}); len(args) > 0 {
			o.Source, o.Kind = args[0], *sourceKinds.Of(args[0])
		}
		r, err := ladder.Run(c.Context(), o, db)
		if err != nil {
			return err
		}
		if html != "" {
			err = writeHTML(html, r.Page()) // print the rest even if this fails: it took minutes
		}
		if asJSON {
			return errors.Join(err, json.NewEncoder(e.stdout).Encode(r))
		}
		return errors.Join(err, r.Page().Text(e.stdout))
	}
	f := c.Flags()
	sp.AddFlags(f, "to")
	f.StringVar(&o.Key, "key", o.Key, "the `FIELD` that identifies a row")
	addWhole(f, &o.Messages, "messages", "use at most `N` messages of the feed")
	addDuration(f, &o.For, "for", "", "how long the first way writes; the others write as many messages")
	addWhole(f, &o.Runs, "runs", "measure everything `N` times")
	addDuration(f, &o.Lag, "lag", "", "how far the table may be behind the feed")
	f.BoolVar(&o.Unsafe, "unsafe", false, "advise also settings that lose commits in a power cut")
	f.StringVar(&html, "html", "", "write a page with plots to this `FILE`")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	f.SortFlags = false
	return c
}

// benchDatabase returns the database and schema that --to names.
func benchDatabase(sp *spec.Spec) (ladder.Database, error) {
	d, err := sp.Destination()
	if err != nil {
		return nil, err
	}
	return ladder.Open(d.Name, d.Dest)
}

func writeHTML(path string, p *report.Page) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(p.HTML(f), f.Close())
}
