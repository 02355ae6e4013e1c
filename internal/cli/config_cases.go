package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/pipeline"
	"github.com/weirsync/weir/internal/quantity"
	"github.com/weirsync/weir/internal/settings"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/status"
)

func (e *env) configTestCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "test FILE",
		Short: "Run the tests of a config file",
		Long: `Run the tests of a config file: apply the feed of each to empty tables in
SQLite, once in one batch and once line by line, and compare the rows with the
rows that the test expects. on_create and every are ignored.

Exit codes: 0 all tests passed, 1 failed, or a test did, 2 the file has errors.`,
		Example: `  weir config test weir.yaml`,
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			file, err := e.readFile(args[0], false)
			if err != nil {
				return err
			}
			if len(file.Cases) == 0 {
				return usagef("%s has no tests", args[0])
			}
			return e.runCases(c.Context(), file)
		},
	}
}

// runCases runs the tests of a file and prints which ones passed.
func (e *env) runCases(ctx context.Context, file *settings.Spec) error {
	m := *file.Mapping
	m.Tables = slices.Clone(m.Tables)
	for i := range m.Tables {
		m.Tables[i].OnCreate = nil
	}
	failed := 0
	for i := range file.Cases {
		ok, err := e.passes(ctx, &m, &file.Cases[i])
		if err != nil {
			return err
		} else if !ok {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %s failed", failed, quantity.Count(int64(len(file.Cases)), "test"))
	}
	return nil
}

// passes runs a test, in one batch and line by line, and prints that it passed, or the differences of the first that fails.
func (e *env) passes(ctx context.Context, m *mapping.Mapping, test *settings.Case) (ok bool, err error) {
	rejected := ""
	for rows, batches := range []string{"", " (line by line)"} {
		differences, did, err := e.runCase(ctx, m, test, rows)
		if err != nil {
			return false, fmt.Errorf("test %q%s: %w", test.Name, batches, err)
		}
		for _, d := range differences {
			fmt.Fprintln(e.stdout, printable(fmt.Sprintf("%v%s", d, batches)))
		}
		if len(differences) > 0 {
			return false, nil
		}
		rejected = rejectedInCase(did)
	}
	return true, e.confirm("ok: %s%s", test.Name, rejected)
}

// rejectedInCase tells how many lines of a test's feed were rejected, with the first line for each reason.
func rejectedInCase(did *status.Snapshot) string {
	var texts []string
	for i := range did.Reasons {
		r := &did.Reasons[i]
		texts = append(texts, fmt.Sprintf("line %d%s: %s", r.Line, fold.ElementText(r.Element), clipped(r.Detail, shownDetail)))
	}
	if len(texts) == 0 {
		return ""
	}
	return fmt.Sprintf(" (rejected: %s; %s)", quantity.Count(did.Rejected, "line"), strings.Join(texts, "; "))
}

// runCase applies the feed of a test to empty tables, in batches of batchRows rows (0: one batch), and compares the
// tables with the expected rows.
func (e *env) runCase(ctx context.Context, m *mapping.Mapping, test *settings.Case, batchRows int) (differences []*mapping.Fault, did *status.Snapshot, err error) {
	dir, err := os.MkdirTemp("", "weir-test-")
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	feed, path := filepath.Join(dir, "feed.jsonl"), filepath.Join(dir, "test.db")
	if err := os.WriteFile(feed, []byte(test.Feed), 0o600); err != nil {
		return nil, nil, err
	}
	options := sink.Options{Level: sink.Off, Log: slog.New(slog.DiscardHandler)}
	o := e.newSpec()
	o.Mapping, o.Batch = m, settings.Batch{Rows: batchRows, Buffer: foldBuffer}
	plan, err := o.FoldFiles([]string{feed}, &settings.Destination{Driver: caseDriver}, "")
	if err == nil {
		plan, err = plan.AtDatabase(ctx, sink.NoTables)
	}
	if err != nil {
		return nil, nil, err
	}
	c := plan.Job
	c.Log = options.Log
	db, err := caseDriver.Open(ctx, path, options)
	if err != nil {
		return nil, nil, err
	}
	p := status.New(c.Plan.TableNames()...)
	if err := errors.Join(pipeline.Run(ctx, c, db, nil, p), db.Close()); err != nil {
		return nil, nil, err
	}
	in, err := caseDriver.Inspect(ctx, path, options)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	snapshot := p.Snapshot()
	differences, err = test.Compare(m, func(table string) ([]string, error) {
		if t, err := sink.Table(ctx, in.Tables, table, nil); err == nil && !t.Exists {
			return nil, nil
		}
		rows, _, err := in.Sample(ctx, table, math.MaxInt)
		return rows, err
	})
	return differences, &snapshot, err
}
