package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

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

func (e *env) verifyCommand() *cobra.Command {
	o := &verifyOptions{}
	c := &cobra.Command{
		Use:   "verify FILE... --to DEST",
		Short: "Compare a table with captured files",
		Long: `Fold captured files, in the order in which they are named, and compare the table
with the result. It only reads, and prints the first differences.

The whole fold is held in memory: about as much as the table has bytes. Columns that
no message names are not compared. A column that none of a row's messages names must
be NULL, unless it has a default. A number or JSON whose spelling a widened column
may have changed is compared by value.

A table whose rows expire needs --at, the time of the comparison: rows that may be
missing because they had expired by then are counted apart.

Exit codes: 0 equal, 1 failed, or the table differs, 2 wrong usage.`,
		Example: `  weir verify flights.jsonl.gz --to flights.db
  weir verify 'captures/*.jsonl.zst' --to postgres://weir@db.example/air --table flights --delete-when op=delete`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			file, err := e.configured(c)
			if err != nil {
				return err
			}
			if err := file.OneTable(); err != nil {
				return usageError{err}
			}
			return e.verify(c.Context(), o, args)
		},
	}
	f := c.Flags()
	inGroup(f, sourceFlags, o.maxLineFlag)
	inGroup(f, tableFlags, func(f *pflag.FlagSet) { o.tableOptions.flags(f, &o.choices) })
	inGroup(f, foldFlags, func(f *pflag.FlagSet) { o.foldOptions.flags(f, &o.choices) })
	f.String("config", "", configHelp)
	f.IntVar(&o.show, "show", 10, "print at most this many differences")
	f.StringVar(&o.at, "at", "", "the `TIME` of the comparison, such as 2020-05-15T13:30:00Z, for a table whose rows expire")
	f.SortFlags = false
	return c
}

type verifyOptions struct {
	fileOptions
	show int
	at   string
	kept job.Table // what the job wants of the table, beside its name and its fold
}

// time returns that of the comparison.
func (o *verifyOptions) time() (at time.Time, err error) {
	switch {
	case o.at == "" && o.kept.Expire != nil:
		return at, usagef("the rows of the table expire: --at TIME says when it is compared, such as --at 2020-05-15T13:30:00Z")
	case o.at != "" && o.kept.Expire == nil:
		return at, usagef("--at is for a table whose rows expire (expire in the config file)")
	case o.at == "":
		return at, nil
	}
	if at, err = time.Parse(time.RFC3339, o.at); err != nil {
		return at, usagef("--at %q is not a time such as 2020-05-15T13:30:00Z", o.at)
	}
	return at, nil
}

// A verifier compares what would be written with the table.
type verifier struct {
	sink.Inspector
	env   *env
	show  int
	table schema.Table
	// expire is when rows of the table are removed, nil for never, and at the time of the
	// comparison.
	expire *job.Expire
	at     time.Time

	rows, live int
	different  int
	expired    int // rows that the table may lack because they were old
}

func (v *verifier) look(ctx context.Context, f *sink.Flush) error {
	b := f.Batches[0]
	switch v.rows = b.Rows(); {
	case v.table.Exists:
	case v.rows > 0:
		return fmt.Errorf("table %q is missing", v.table.Name)
	default: // no line of the feed makes one
		return nil
	}
	rows, caps := b.Sorted(), v.Caps()
	for i := range b.Table.Columns {
		// A column of nulls alone may be missing: Postgres gets it with its first value.
		name := b.Table.Columns[i].Name
		if caps.Find(&v.table, name, i) < 0 && slices.ContainsFunc(rows, func(r *fold.Row) bool { raw := b.Value(r, i); return raw != nil && raw[0] != 'n' }) {
			v.different++
			fmt.Fprintf(v.env.stdout, "the table lacks the column %s\n", printable(name))
		}
	}
	for _, r := range rows {
		if !r.Deleted {
			v.live++
		}
	}
	return v.Compare(ctx, b, func(d sink.Difference) bool {
		if d.Kind == sink.Missing && v.expire != nil && v.expire.Explains(b, d.Row, v.at) {
			v.expired++
			v.live--
			return true
		}
		if v.different++; v.different <= v.show {
			v.say(b, &d)
		}
		return true
	})
}

// say prints a difference.
func (v *verifier) say(b *fold.Batch, d *sink.Difference) {
	key := ""
	for i, k := range b.Table.Key {
		raw := b.Value(d.Row, k)
		key += []string{"", ","}[min(i, 1)] + string(feed.Text(nil, raw, feed.KindOf(raw)))
	}
	switch d.Kind {
	case sink.Missing:
		fmt.Fprintf(v.env.stdout, "%s: the table lacks the row\n", printable(key))
	case sink.Removed:
		fmt.Fprintf(v.env.stdout, "%s: the table has the row, which was removed\n", printable(key))
	case sink.Refused:
		fmt.Fprintf(v.env.stdout, "%s: the database rejects the row: %s\n", printable(key), printable(d.Have))
	default:
		want := "NULL"
		if raw := b.Value(d.Row, d.Column); raw != nil && raw[0] != 'n' {
			want = string(raw)
		}
		fmt.Fprintf(v.env.stdout, "%s: %s is %s, and should be %s\n", printable(key), printable(b.Table.Columns[d.Column].Name), printable(d.Have), printable(want))
	}
}

func (e *env) verify(ctx context.Context, o *verifyOptions, args []string) (err error) {
	opt, rulesErr := o.rules()
	if rulesErr != nil {
		rulesErr = usageError{rulesErr}
	}
	to, toErr := e.destination(o.to)
	files, filesErr := expand(args, false)
	at, atErr := o.time()
	if err := errors.Join(rulesErr, toErr, filesErr, atErr); err != nil {
		return err
	}
	if o.table == "" {
		if o.table, err = stem(files); err != nil {
			return err
		}
	}
	db, err := to.Inspect(ctx, to.dest, sink.Options{Log: e.log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	rejects, err := job.ParseRejects("discard")
	if err != nil {
		return err
	}
	v := &verifier{Inspector: db, env: e, show: o.show, expire: o.kept.Expire, at: at}
	if v.table, err = db.Table(ctx, o.table, opt.Key); err != nil {
		return err
	}
	p, kept := progress.New(o.table), o.kept
	kept.Name, kept.Fold = o.table, opt
	err = job.Fold(ctx, job.Config{Sources: files, Source: source.Options{MaxLine: int(o.maxLine)}, Tables: []job.Table{kept},
		BatchPeriod: math.MaxInt64, BatchRows: math.MaxInt, Buffer: math.MaxInt64, Rejects: rejects, MaxRejects: math.MaxInt64, Log: e.log},
		[]schema.Table{v.table}, db.Caps(), p, func(f *sink.Flush) error { return v.look(ctx, f) })
	if err != nil {
		return err
	}
	return v.report(ctx, counted(p.Snapshot().Lines, "line"))
}

// report prints that the table is the fold of the lines, or returns how it differs.
func (v *verifier) report(ctx context.Context, lines string) (err error) {
	var total int64
	if v.table.Exists {
		if _, total, err = v.Sample(ctx, v.table.Name, 0); err != nil {
			return err
		}
	}
	name, err := json.Marshal(v.table.Name)
	if err != nil {
		return err
	}
	rows, are := counted(int64(v.live), "row"), "are"
	if v.live == 1 {
		are = "is"
	}
	switch {
	case v.different > 0:
		return fmt.Errorf("%s in %s from the fold of %s", counted(int64(v.different), "difference"), counted(int64(v.rows), "row"), lines)
	case total > int64(v.live):
		return fmt.Errorf("the %s of the fold %s in the table, and %s", rows, are, counted(total-int64(v.live), "other"))
	}
	apart := ""
	if v.expire != nil {
		apart = fmt.Sprintf(", but for %s that had expired", counted(int64(v.expired), "row"))
	}
	_, err = fmt.Fprintf(v.env.stdout, "%s of table %s %s the fold of %s%s\n", rows, name, are, lines, apart)
	return err
}
