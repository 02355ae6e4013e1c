package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/merge"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/pipeline"
	"github.com/weirsync/weir/internal/quantity"
	"github.com/weirsync/weir/internal/settings"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/status"
)

func (e *env) explainCommand() *cobra.Command {
	x, sp := &explainer{env: e}, e.newSpec()
	c := &cobra.Command{
		Use:   "explain ID FILE... [--table NAME]",
		Short: "Name the line that set each column of a row",
		Long: `Read captured files, in the order in which they are named, and print one row as
they make it: each column, its value, and the file and line that set it. For a
sum or a patched value, this is the last of its messages, with their number; for
a minimum or maximum, the first message with the value. With the tables of a
config file it also names the source of the value, such as
"clock (type=offblock)". No database is needed: the key of the row is set by
--key or the config file, else it is id, whatever the primary key of a table.

The ID of a key of several fields has as many parts, separated by commas.

Exit codes: 0 done, 1 failed, or no line names the row, 2 wrong usage.`,
		Example: `  weir explain BAW1174-1795183537-schedule-0424 flights.jsonl.gz
  weir explain BA,117 'captures/*.jsonl.zst' --key carrier,flight --delete-when op=delete`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			if err := e.load(c, sp); err != nil {
				return err
			}
			x.id, x.name = args[0], sp.Table.Name
			return x.explain(c.Context(), sp, args[1:])
		},
	}
	f := c.Flags()
	sp.AddFoldFlags(f, "table")
	f.Lookup("table").Usage = "the `TABLE` of the row, if the config file has several"
	f.Lookup("key").Usage = "the `FIELD,…` of the key (default id)"
	addJSON(f, &x.asJSON)
	f.SortFlags = false
	return c
}

// An origin is the line that set a column.
type origin struct {
	Column  string          `json:"column"`
	Value   json.RawMessage `json:"value"`
	File    string          `json:"file"`
	Line    int64           `json:"line"`
	Element int             `json:"element,omitempty"` // see [fold.Place]
	Source  string          `json:"source,omitempty"`  // in the message, as the mapping names it
	// Messages counts the messages of a sum or a patched value; 0 for other values. File and Line are of the last one.
	Messages int `json:"messages,omitempty"`
}

// An explainer follows one row through the messages.
type explainer struct {
	*env
	asJSON  bool
	name    string // of the table, as the user says
	of      *mapping.Table
	isPlain bool // the fields of the messages are the columns
	table   int
	id      string
	by      []string // the key's fields
	key     []byte   // of the row
	origins []origin // by column of the table; empty if nothing has set it
	lines   int      // lines that made or removed the row
	exists  bool
	removed origin // the line that removed the row last

	names          []string // of the columns with versions
	state, version []byte   // what a database would store for them
}

// look handles the messages of a flush.
func (x *explainer) look(f *sink.Flush) error {
	batches := slices.Clone(f.Batches)
	b := batches[x.table]
	if err := x.setKey(b); err != nil {
		return settings.Usage(err)
	}
	if at := b.Truncated; at != nil && x.exists {
		x.lines++
		x.remove(originOf(f, *at))
	}
	var resolver *fold.Resolver
	if b.Versioned() {
		resolver = fold.NewResolver(b, x.names, &b.Table)
		x.names, b = resolver.Names(), resolver.Batch()
		batches[x.table] = b
	}
	names := func(s fold.Single) bool { return s.Table == x.table && string(s.Key()) == string(x.key) }
	for _, m := range fold.Messages(batches) {
		if !slices.ContainsFunc(m, names) {
			continue
		}
		x.lines++
		rows := fold.Merge(batches, []fold.Message{m})[x.table]
		r := rows[slices.IndexFunc(rows, func(r *fold.Row) bool { return string(r.Key) == string(x.key) })]
		if resolver != nil {
			if old, err := x.resolve(resolver, b, r); err != nil {
				return err
			} else if old {
				continue
			}
		}
		of := x.of
		if x.isPlain || !slices.ContainsFunc(m, func(s fold.Single) bool { return names(s) && !s.Ensures() }) {
			of = nil // the value comes from the field of its name, or from another table
		}
		x.take(b, r, of, originOf(f, m.Place()))
	}
	return nil
}

func originOf(f *sink.Flush, at fold.Place) origin {
	return origin{File: f.Lanes[at.Lane].Source, Line: at.Line, Element: at.Element}
}

// setKey sets the key of the row, in the form of a batch's rows.
func (x *explainer) setKey(b *fold.Batch) error {
	if x.by = b.Table.KeyColumns(); len(x.by) == 0 {
		return usagef("explain follows a row by its key, and the table has none (key none): each message is a row of its own")
	}
	parts := []string{x.id}
	if len(x.by) > 1 {
		if parts = strings.Split(x.id, ","); len(parts) != len(x.by) {
			return fmt.Errorf("the key has %d fields, but %q has %s", len(x.by), x.id, quantity.Count(int64(len(parts)), "part"))
		}
	}
	values := make([][]byte, len(parts))
	for i, text := range parts {
		values[i] = x.of.ReadText(x.by[i], text)
	}
	x.key = fold.AppendKey(nil, &b.Table, values)
	return nil
}

// resolve removes from a message what is not newer than earlier messages. old is true if nothing is left.
func (x *explainer) resolve(resolver *fold.Resolver, b *fold.Batch, m *fold.Row) (old bool, err error) {
	res, err := resolver.Resolve(m, fold.Stored{Exists: x.exists, State: x.state, Version: x.version})
	if err != nil {
		return false, err
	}
	if res.State != nil {
		x.state = res.State
	}
	*m = res.Row
	if b.Version >= 0 {
		if raw := b.Value(m, b.Version); raw != nil {
			x.version = feed.AppendText(nil, raw, feed.KindOf(raw))
		}
	}
	return res.Unchanged, nil
}

// take applies a message of the row. of has the sources of its values, or is nil; from is its place.
func (x *explainer) take(b *fold.Batch, m *fold.Row, of *mapping.Table, from origin) {
	for len(x.origins) < len(b.Table.Columns) {
		x.origins = append(x.origins, origin{Column: schema.HiddenTitle(b.Table.Columns[len(x.origins)].Name)})
	}
	if m.Deleted {
		x.remove(from)
		return
	}
	x.exists = true
	sets := func(column string) bool {
		at := b.Limits.Find(&b.Table, column, 0)
		return at >= 0 && b.Value(m, at) != nil
	}
	for i := range x.origins {
		o := &x.origins[i]
		if b.Initial(m, i) {
			*o = origin{Column: o.Column}
		}
		if b.Value(m, i) != nil && (o.Value == nil || !b.Table.Columns[i].Key) {
			if of != nil {
				from.Source = of.SourceOf(b.Table.Columns[i].Name, sets)
			}
			o.merge(b, m, i, from)
		}
	}
}

// merge merges a message's value of a column into the value of earlier messages. from is its place and source.
func (o *origin) merge(b *fold.Batch, m *fold.Row, col int, from origin) {
	var have []byte
	if o.Value != nil && o.Value[0] != 'n' {
		have = feed.TextOf(o.Value)
	}
	value, _ := b.AppendMerged(nil, m, col, have) // ok, because earlier messages made have
	if value == nil {
		return // the column is unchanged
	}
	if f := b.Table.Columns[col].Merge; b.Relative(m, col) && (f == merge.Sum || f == merge.Patch) {
		from.Messages = o.Messages + 1
	}
	from.Column, from.Value = o.Column, value
	*o = from
}

func (x *explainer) remove(from origin) {
	for i := range x.origins {
		x.origins[i] = origin{Column: x.origins[i].Column}
	}
	x.exists, x.removed = false, from
}

// anyLimits are limits of no particular database.
var anyLimits = schema.Limits{FoldCase: true, Untyped: true, TextTypes: true, NoSchemas: true}

func (x *explainer) explain(ctx context.Context, sp *settings.Spec, args []string) error {
	sp.Table.Name = ""
	sp.Batch = settings.Batch{Buffer: foldBuffer}
	if sp.Mapping != nil {
		sp.Mapping = sp.Mapping.With(x.name)
	}
	caps := sink.Caps{Columns: math.MaxInt32, Children: true, Limits: anyLimits}
	plan, err := sp.FoldFiles(args, &settings.Destination{Driver: sink.Driver{Caps: caps}}, cmp.Or(x.name, args[0]))
	if err == nil {
		plan, err = plan.AtDatabase(ctx, sink.NoTables)
	}
	if err != nil {
		return err
	}
	c := plan.Job
	if x.of, err = x.tableOf(plan.Mapping); err != nil {
		return settings.Usage(err)
	}
	if c.Plan, err = mapping.Compile(plan.Mapping.WithSources(), anyLimits); err != nil {
		return err
	}
	tables := c.Plan.TableNames()
	x.table, x.isPlain = slices.Index(tables, anyLimits.TableName(x.of.Name)), c.Plan.IsPlain()
	// Batches of a table with constraints keep their messages.
	read := func(_ context.Context, wanted ...sink.TableKey) ([]schema.Table, error) {
		return sink.EachTable(wanted, func(_ int, w sink.TableKey) (schema.Table, error) {
			return schema.Table{Name: w.Name, HasConstraints: true}, nil
		})
	}
	p := status.New(tables...)
	if err := pipeline.Fold(ctx, c, caps, p, x.look, read); err != nil {
		return err
	}
	switch {
	case x.lines == 0:
		by := ""
		if len(x.by) > 0 {
			by = ", by the key " + strings.Join(x.by, ",")
		}
		return fmt.Errorf("none of %s names the row %s%s", quantity.Count(p.Snapshot().Lines, "line"), x.id, by)
	case !x.exists:
		return fmt.Errorf("the row %s was removed by %s, line %d%s, and no later line names it", x.id, x.removed.File, x.removed.Line, fold.ElementText(x.removed.Element))
	}
	return x.print()
}

// tableOf returns the table that the flag names, or the only one.
func (x *explainer) tableOf(m *mapping.Mapping) (*mapping.Table, error) {
	for i := range m.Tables {
		t := &m.Tables[i]
		switch {
		case t.Name == x.name && t.Of != "":
			return nil, fmt.Errorf("--table %s is a child table: explain its parent with --table %s", x.name, t.Of)
		case t.Name == x.name, len(m.Tables) == 1 && !t.IsStar() && (x.name == "" || m.File == ""):
			return t, nil
		}
	}
	names := m.Names()
	switch {
	case x.name != "":
		return nil, fmt.Errorf("--table %s: %s has no such table%s", x.name, m.File, feed.DidYouMean(x.name, names))
	case slices.Contains(names, mapping.Star):
		return nil, fmt.Errorf("%s has a table %q: --table NAME, as it is in the stream", m.File, mapping.Star)
	}
	return nil, fmt.Errorf("%s has several tables: --table %s", m.File, strings.Join(names, ", or "))
}

func (x *explainer) print() error {
	made := slices.DeleteFunc(x.origins, func(o origin) bool { return o.Value == nil || mapping.IsSourceColumn(o.Column) })
	if x.asJSON {
		return x.printJSON(made)
	}
	t := tabwriter.NewWriter(x.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "COLUMN\tVALUE\tFROM")
	for _, o := range made {
		from := fmt.Sprintf("%s:%d%s", o.File, o.Line, fold.ElementText(o.Element))
		if o.Source != "" {
			from = fmt.Sprintf("← %s, line %d%s of %s", printable(o.Source), o.Line, fold.ElementText(o.Element), o.File)
		}
		if o.Messages > 1 {
			from += fmt.Sprintf(", the last of %d messages", o.Messages)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", printable(o.Column), printable(string(o.Value)), from)
	}
	return t.Flush()
}
