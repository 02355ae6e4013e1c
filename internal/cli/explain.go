package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/job"
	"github.com/weirsync/weir/internal/progress"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/source"
)

func (e *env) explainCommand() *cobra.Command {
	var asJSON bool
	o := &fileOptions{}
	c := &cobra.Command{
		Use:   "explain ID FILE...",
		Short: "Name the line that set each column of a row",
		Long: `Read captured files, in the order in which they are named, and print one row as
they make it: each column, its value, and the file and line that set it. No
database is needed.

The ID of a key of several fields has as many parts, separated by commas.

Exit codes: 0 done, 1 failed, or no line names the row, 2 wrong usage.`,
		Example: `  weir explain BAW1174-1795183537-schedule-0424 flights.jsonl.gz
  weir explain BA,117 'captures/*.jsonl.zst' --key carrier,flight --delete-when op=delete`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			file, err := e.configured(c)
			if err != nil {
				return err
			}
			if err := file.OneTable(); err != nil {
				return usageError{err}
			}
			return e.explain(c.Context(), o, args[0], args[1:], asJSON)
		},
	}
	f := c.Flags()
	inGroup(f, sourceFlags, o.maxLineFlag)
	inGroup(f, foldFlags, func(f *pflag.FlagSet) { o.foldOptions.flags(f, &o.choices) })
	f.String("config", "", configHelp)
	f.BoolVar(&asJSON, "json", false, "print JSON")
	f.SortFlags = false
	return c
}

// An origin is the line that set a column.
type origin struct {
	Column string          `json:"column"`
	Value  json.RawMessage `json:"value"`
	File   string          `json:"file"`
	Line   int64           `json:"line"`
}

// An explainer follows one row.
type explainer struct {
	key     []byte // of the row, as the fold has it
	fill    bool
	origins []origin // by column of the table; without a value where none is set
	lines   int      // that made or removed the row
	exists  bool
	removed origin // by what it was removed last

	names          []string // of the columns that have versions
	state, version []byte   // what a database would keep of them
}

// look takes the messages of a flush.
func (e *explainer) look(f *sink.Flush) error {
	b := f.Batches[0]
	var resolver *fold.Resolver
	if b.Versioned() {
		resolver = fold.NewResolver(b, e.names, &b.Table)
		e.names, b = resolver.Names(), resolver.Batch()
	}
	batches := []*fold.Batch{b}
	for _, m := range fold.Messages(batches) {
		if string(m[0].Key()) != string(e.key) {
			continue
		}
		e.lines++
		r := fold.Merge(batches, []fold.Message{m})[0][0]
		if resolver != nil {
			if old, err := e.resolve(resolver, b, r); err != nil {
				return err
			} else if old {
				continue
			}
		}
		e.take(b, r, origin{File: f.Lanes[m.Place().Lane].Source, Line: m.Place().Line})
	}
	return nil
}

// resolve reduces a message to what is newer than what came before it; old tells that
// nothing is.
func (e *explainer) resolve(resolver *fold.Resolver, b *fold.Batch, m *fold.Row) (old bool, err error) {
	res, err := resolver.Resolve(m, fold.Stored{Exists: e.exists, State: e.state, Version: e.version})
	if err != nil {
		return false, err
	}
	if res.State != nil {
		e.state = res.State
	}
	*m = res.Row
	if raw := b.Value(m, b.Version); b.Version >= 0 && raw != nil {
		e.version = feed.AppendText(nil, raw, feed.KindOf(raw))
	}
	return res.Unchanged, nil
}

// take applies one message of the row, which came from a place.
func (e *explainer) take(b *fold.Batch, m *fold.Row, from origin) {
	for len(e.origins) < len(b.Table.Columns) {
		e.origins = append(e.origins, origin{Column: b.Table.Columns[len(e.origins)].Name})
	}
	if e.exists = !m.Deleted; !e.exists {
		for i := range e.origins {
			e.origins[i] = origin{Column: e.origins[i].Column}
		}
		e.removed = from
		return
	}
	for i := range e.origins {
		o := &e.origins[i]
		if b.Initial(m, i) {
			*o = origin{Column: o.Column}
		}
		if v := b.Value(m, i); v != nil && (o.Value == nil || !e.fill && !b.Table.Columns[i].Key) {
			*o = origin{o.Column, append(json.RawMessage{}, v...), from.File, from.Line}
		}
	}
}

// explained is the table of no database in particular, whose limits are anyLimits.
var (
	explained = schema.Table{Name: "explained"}
	anyLimits = schema.Limits{FoldCase: true, Untyped: true}
)

func (e *env) explain(ctx context.Context, o *fileOptions, id string, args []string, asJSON bool) error {
	opt, err := o.rules()
	if err != nil {
		return usageError{err}
	}
	sources, err := expand(args, false)
	if err != nil {
		return err
	}
	parts := []string{id}
	if len(o.key) > 1 {
		if parts = strings.Split(id, ","); len(parts) != len(o.key) {
			return usagef("the key has %d fields, but %q has %s", len(o.key), id, counted(int64(len(parts)), "part"))
		}
	}
	p := progress.New(explained.Name)
	x := &explainer{fill: o.fillOnly}
	if x.key, err = keyOf(o.key, parts); err != nil {
		return usageError{err}
	}
	rejects, err := job.ParseRejects("discard")
	if err != nil {
		return err
	}
	opt.Columns, opt.MaxColumns = fold.AddColumns, math.MaxInt32
	// The sets of a table with constraints keep their messages one by one.
	table := explained
	table.HasConstraints = true
	err = job.Fold(ctx, job.Config{Sources: sources, Source: source.Options{MaxLine: int(o.maxLine)}, Tables: []job.Table{{Name: table.Name, Fold: opt}}, BatchRows: defaultBatchRows, Buffer: defaultBuffer,
		Rejects: rejects, MaxRejects: 1 << 62, Log: e.log}, []schema.Table{table}, sink.Caps{Columns: math.MaxInt32, Limits: anyLimits}, p, x.look)
	if err != nil {
		return err
	}
	switch {
	case x.lines == 0:
		return fmt.Errorf("none of %s names the row %s", counted(p.Snapshot().Lines, "line"), id)
	case !x.exists:
		return fmt.Errorf("the row %s was removed by %s, line %d, and no later line names it", id, x.removed.File, x.removed.Line)
	}
	var made []origin
	for _, o := range x.origins {
		if o.Value != nil {
			made = append(made, o)
		}
	}
	if asJSON {
		return json.NewEncoder(e.stdout).Encode(made)
	}
	t := tabwriter.NewWriter(e.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "COLUMN\tVALUE\tFROM")
	for _, o := range made {
		fmt.Fprintf(t, "%s\t%s\t%s:%d\n", printable(o.Column), printable(string(o.Value)), o.File, o.Line)
	}
	return t.Flush()
}

// keyOf is the key, as the fold has it, of the row whose key fields have the given texts.
func keyOf(names, parts []string) ([]byte, error) {
	message := map[string]string{}
	for i, n := range names {
		message[n] = parts[i]
	}
	line, err := json.Marshal(message)
	if err != nil {
		return nil, err
	}
	f := fold.NewFolder(&feed.Names{}, explained, fold.Options{Key: names, Columns: fold.AddColumns, Limits: anyLimits, Log: slog.New(slog.DiscardHandler)})
	var b fold.Batch
	if err := f.Fold(&b, line, fold.Place{}); err != nil {
		return nil, fmt.Errorf("not an id: %w", err)
	}
	f.Seal(&b)
	return b.Sorted()[0].Key, nil
}
