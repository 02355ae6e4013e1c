package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/spf13/cobra"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/pipeline"
	"github.com/weirsync/weir/internal/quantity"
	"github.com/weirsync/weir/internal/settings"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/status"
)

func (e *env) verifyCommand() *cobra.Command {
	v, sp := &verifier{env: e, show: 10, verification: verification{Shown: []string{}}}, e.newSpec()
	c := &cobra.Command{
		Use:   "verify FILE... --to DEST",
		Short: "Compare tables with captured files",
		Long: `Fold captured files, in the order in which they are named, and compare the
table, or all tables of the config file, with the result. It only reads, and
prints the first differences.

The whole result is held in memory, which takes about as many bytes as the table.
Columns that no message names are not compared. A column that none of a row's
messages names must be NULL, unless it has a default. Numbers and JSON are
compared by value if widening the column may have respelled them. For a table
without a key (--key none), the number of rows and a sum of their hashes are
compared.

Exit codes: 0 equal, 1 failed, or the table differs, 2 wrong usage.`,
		Example: `  weir verify flights.jsonl.gz --to flights.db
  weir verify 'captures/*.jsonl.zst' --to postgres://weir@db.example/air --table flights --delete-when op=delete`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := e.load(c, sp); err != nil {
				return err
			}
			return v.verify(c.Context(), sp, args)
		},
	}
	f := c.Flags()
	sp.AddFoldFlags(f, "to", "table")
	f.Var(settings.NewValue(&v.show, ""), "show", "print at most `N` differences")
	addJSON(f, &v.asJSON)
	f.SortFlags = false
	return c
}

// A verifier compares the expected rows with the tables.
type verifier struct {
	sink.Inspector
	*env
	show    int // differences that may still be printed
	asJSON  bool
	several bool // there are several tables, or there may be
	verification
}

// A verification is what verify prints with --json.
type verification struct {
	Lines  int64      `json:"lines"`
	Tables []verified `json:"tables"`
	Shown  []string   `json:"shown"` // the first differences
}

// verified is the result of comparing a table.
type verified struct {
	Name        string `json:"table"`
	Rows        int    `json:"rows"` // that the lines make or remove
	Differences int    `json:"differences"`
	OtherRows   int64  `json:"other_rows"` // of the table, that no line names

	table  schema.Table
	prefix string // of each printed line
	live   int    // rows that are not removed
}

func (v *verifier) look(ctx context.Context, f *sink.Flush) error {
	batches, err := explode(f.Batches)
	if err != nil {
		return err
	}
	for i, b := range batches {
		if i == len(v.verification.Tables) {
			if err := v.add(ctx, b.Table.Name, b.Table.KeyColumns()); err != nil {
				return err
			}
		}
		if err := v.compare(ctx, batches, i); err != nil {
			return err
		}
	}
	return nil
}

// explode returns batches with all messages, including messages of rows that are values of other rows.
func explode(batches []*fold.Batch) ([]*fold.Batch, error) {
	for _, b := range batches {
		b.MakeAbsolute()
	}
	all := slices.Clone(batches)
	x := fold.NewExplosion(batches, func(i int) *schema.Table { return &batches[i].Table })
	for i, b := range batches {
		if b.Child != nil && b.Child.Set {
			all[i] = b.Exploded() // its parents were exploded before
		} else if err := x.Explode(i, b, b.Sorted()); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// differs counts a difference and prints it if it is one of the first.
func (v *verifier) differs(t *verified, format string, args ...any) {
	t.Differences++
	v.print(t, format, args...)
}

// print prints a line about a table, unless the limit is reached.
func (v *verifier) print(t *verified, format string, args ...any) {
	if v.show == 0 {
		return
	}
	v.show--
	text := t.prefix + fmt.Sprintf(format, args...)
	if v.Shown = append(v.Shown, text); !v.asJSON {
		fmt.Fprintln(v.stdout, text)
	}
}

func (v *verifier) compare(ctx context.Context, batches []*fold.Batch, table int) error {
	t, b := &v.verification.Tables[table], batches[table]
	switch t.Rows = b.Rows(); {
	case t.table.Exists:
	case t.Rows > 0:
		return fmt.Errorf("table %q is missing", t.Name)
	default: // no line of the feed makes a row
		return nil
	}
	rows, caps := b.Sorted(), v.Caps()
	for i := range b.Table.Columns {
		// A column may be missing if all its values are null: weir adds it with its first value.
		c := &b.Table.Columns[i]
		if c.Stored() && caps.Find(&t.table, c.Name, i) < 0 && slices.ContainsFunc(rows, func(r *fold.Row) bool { raw := b.Value(r, i); return raw != nil && raw[0] != 'n' }) {
			v.differs(t, "the table lacks the column %s", printable(c.Name))
		}
	}
	for _, r := range rows {
		if !r.Deleted {
			t.live++
		}
	}
	if b.Table.Appends() {
		return v.compareSums(ctx, t, b)
	}
	present := int64(t.live)
	err := v.Compare(ctx, b, func(d sink.Difference) bool {
		switch d.Kind {
		case sink.Missing:
			present--
		case sink.Removed:
			present++
		}
		v.differs(t, "%s", describe(b, &d))
		return true
	})
	if t.OtherRows = max(0, t.OtherRows-present); err != nil || t.OtherRows == 0 || v.show == 0 {
		return err
	}
	return v.Others(ctx, b, func(key string) bool {
		v.print(t, "%s: the table has the row, the lines do not", printable(key))
		return v.show > 0
	})
}

// compareSums compares a table without a key with its batch, by number of rows and sum of their hashes.
func (v *verifier) compareSums(ctx context.Context, t *verified, b *fold.Batch) error {
	have, want, err := v.Sums(ctx, b)
	if err != nil {
		return err
	}
	t.OtherRows = 0 // which rows are extra is unknown
	switch {
	case have.Rows != want.Rows:
		v.differs(t, "the table has %s, and the messages make %s", quantity.Count(have.Rows, "row"), quantity.Grouped(want.Rows))
	case have != want:
		v.differs(t, "the table has as many rows as the messages make, but not the same ones")
	}
	return nil
}

func describe(b *fold.Batch, d *sink.Difference) string {
	key := ""
	for i, k := range b.Table.Key {
		raw := b.Value(d.Row, k)
		key += []string{"", ","}[min(i, 1)] + string(feed.TextOf(raw))
	}
	key = printable(key)
	switch d.Kind {
	case sink.Missing:
		return key + ": the table lacks the row"
	case sink.Removed:
		return key + ": the table has the row, which was removed"
	case sink.Refused:
		return fmt.Sprintf("%s: the database rejects the row: %s", key, printable(d.Have))
	}
	want := "NULL"
	if raw := b.Value(d.Row, d.Column); raw != nil && raw[0] != 'n' {
		want = string(raw)
	}
	return fmt.Sprintf("%s: %s is %s, and should be %s", key, printable(b.Table.Columns[d.Column].Name), printable(d.Have), printable(want))
}

func (v *verifier) verify(ctx context.Context, sp *settings.Spec, args []string) (err error) {
	sp.Batch = settings.Batch{Period: settings.Forever, Buffer: math.MaxInt64} // one batch holds everything
	plan, err := sp.FoldFiles(args, nil, "")
	if err != nil {
		return err
	}
	if v.Inspector, err = plan.To.Reader(ctx, plan.To.Dest, sink.Options{Log: v.log}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.Close()) }()
	if plan, err = plan.AtDatabase(ctx, v.Inspector.Tables); err != nil {
		return err
	}
	return v.run(ctx, plan.Job)
}

func (v *verifier) add(ctx context.Context, name string, key []string) (err error) {
	var of verified
	if of.table, err = sink.Table(ctx, v.Inspector.Tables, name, key); err == nil && of.table.Exists {
		_, of.OtherRows, err = v.Sample(ctx, of.table.Name, 0)
	}
	if of.Name = of.table.Name; v.several {
		of.prefix = printable(of.Name) + ": "
	}
	v.verification.Tables = append(v.verification.Tables, of)
	return err
}

// run folds the sources of a job and compares its tables.
func (v *verifier) run(ctx context.Context, c pipeline.Config) error {
	tables := c.Plan.Tables
	v.several = len(tables) > 1 || c.Plan.Star() != nil
	p := status.New(c.Plan.TableNames()...)
	if err := pipeline.Fold(ctx, c, v.Caps(), p, func(f *sink.Flush) error { return v.look(ctx, f) }, v.Inspector.Tables); err != nil {
		return err
	}
	for _, t := range tables[min(len(v.verification.Tables), len(tables)):] { // there were no messages
		if err := v.add(ctx, t.Name, t.StoredKey()); err != nil {
			return err
		}
	}
	v.Lines = p.Snapshot().Lines
	var faults []error
	for i := range v.verification.Tables {
		faults = append(faults, v.report(&v.verification.Tables[i]))
	}
	if v.asJSON {
		faults = append(faults, v.printJSON(v.verification))
	}
	return errors.Join(faults...)
}

// report prints that a table matches the lines, or returns an error that counts the differences.
func (v *verifier) report(t *verified) error {
	lines, rows, match := quantity.Count(v.Lines, "line"), quantity.Count(int64(t.live), "row"), "match"
	if t.live == 1 {
		match = "matches"
	}
	others := ""
	if t.OtherRows > 0 {
		others = ", and the table has " + quantity.Count(t.OtherRows, "other row")
	}
	switch {
	case t.Differences > 0:
		return fmt.Errorf("%s%s in %s, compared with %s%s", t.prefix, quantity.Count(int64(t.Differences), "difference"), quantity.Count(int64(t.Rows), "row"), lines, others)
	case others != "":
		return fmt.Errorf("%s%s %s%s", t.prefix, rows, match, others)
	case v.asJSON:
		return nil
	}
	return v.confirm("%s of table %q %s %s", rows, t.Name, match, lines)
}
