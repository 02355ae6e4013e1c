package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/job"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/source"
)

func (e *env) verifyCommand() *cobra.Command {
	o := &fileOptions{}
	show := 0
	c := &cobra.Command{
		Use:   "verify FILE... --to DEST",
		Short: "Compare a table with captured files",
		Long: `Fold captured files, in the order in which they are named, and compare the table
with the result. It only reads, and prints the first differences.

The whole fold is held in memory: about as much as the table has bytes. Columns that
no message names are not compared. A column that none of a row's messages names must
be NULL, unless it has a default. A number or JSON whose spelling a widened column
may have changed is compared by value.

Exit codes: 0 equal, 1 failed, or the table differs, 2 wrong usage.`,
		Example: `  weir verify flights.jsonl.gz --to flights.db
  weir verify 'captures/*.jsonl.zst' --to postgres://weir@db.example/air --table flights --delete-when op=delete`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return e.verify(c.Context(), o, args, show) },
	}
	f := c.Flags()
	inGroup(f, sourceFlags, o.maxLineFlag)
	inGroup(f, tableFlags, func(f *pflag.FlagSet) { o.tableOptions.flags(f, &o.choices) })
	inGroup(f, foldFlags, func(f *pflag.FlagSet) { o.foldOptions.flags(f, &o.choices) })
	f.IntVar(&show, "show", 10, "print at most this many differences")
	f.SortFlags = false
	return c
}

// A verifier is a sink that compares and writes nothing.
type verifier struct {
	database
	ctx   context.Context //nolint:containedctx // that of a flush outlives the signal, and what was read until then is no feed to compare with
	env   *env
	show  int
	table schema.Table

	rows, live int
	different  int
}

func (v *verifier) Claim(context.Context, string, string) (sink.Checkpoint, error) {
	return sink.Checkpoint{}, nil
}

func (v *verifier) Table(ctx context.Context, name string, key []string) (schema.Table, error) {
	t, err := v.database.Table(ctx, name, key)
	v.table = t
	return t, err
}

func (v *verifier) Flush(_ context.Context, f *sink.Flush) (sink.Result, error) {
	if err := v.ctx.Err(); err != nil {
		return sink.Result{}, err
	}
	b := f.Batch
	switch v.rows = b.Rows(); {
	case v.table.Exists:
	case v.rows > 0:
		return sink.Result{}, fmt.Errorf("table %q is missing", v.table.Name)
	default: // no line of the feed makes one
		return sink.Result{}, nil
	}
	rows := b.Sorted()
	for i := range b.Table.Columns {
		// A column of nulls alone may be missing: Postgres gets it with its first value.
		name := b.Table.Columns[i].Name
		if v.table.Find(name, i) < 0 && slices.ContainsFunc(rows, func(r *fold.Row) bool { raw := b.Value(r, i); return raw != nil && raw[0] != 'n' }) {
			v.different++
			fmt.Fprintf(v.env.stdout, "the table lacks the column %s\n", printable(name))
		}
	}
	for _, r := range rows {
		if !r.Deleted {
			v.live++
		}
	}
	return sink.Result{}, v.Compare(v.ctx, f.Batch, func(d sink.Difference) bool {
		if v.different++; v.different <= v.show {
			v.say(f.Batch, &d)
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
	case sink.Extra:
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

// A concatReader is files as one stream of lines, so that they are folded into one batch.
type concatReader struct {
	ctx     context.Context //nolint:containedctx // an io.Reader has no other way to be stopped
	files   []string
	maxLine int // bytes
	now     *source.Stream
	block   *source.Block
	rest    []byte
	torn    bool // the last line had no newline
}

func (s *concatReader) Read(p []byte) (int, error) {
	for len(s.rest) == 0 {
		if s.torn {
			s.torn = false
			p[0] = '\n'
			return 1, nil
		}
		if err := s.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

func (s *concatReader) next() (err error) {
	if s.block != nil {
		s.now.Release(s.block)
		s.block = nil
	}
	if s.now == nil {
		if len(s.files) == 0 {
			return io.EOF
		}
		if s.now, err = source.Open(s.ctx, s.files[0], source.Options{MaxLine: s.maxLine}, ""); err != nil {
			return err
		}
		s.files = s.files[1:]
	}
	b, err := s.now.Next(s.ctx)
	if err == io.EOF {
		err = s.now.Close()
		s.now = nil
		return err
	}
	if err == nil {
		s.block, s.rest, s.torn = b, b.Data, b.Tail
		if b.Oversize > 0 { // it counts, and makes nothing
			s.rest, s.torn = []byte{'\n'}, false
		}
	}
	return err
}

func (s *concatReader) Close() error {
	if s.now == nil {
		return nil
	}
	return s.now.Close()
}

func (e *env) verify(ctx context.Context, o *fileOptions, args []string, show int) (err error) {
	opt, rulesErr := o.rules()
	if rulesErr != nil {
		rulesErr = usageError{rulesErr}
	}
	to, toErr := e.destination(o.to)
	files, filesErr := expand(args, false)
	if err := errors.Join(rulesErr, toErr, filesErr); err != nil {
		return err
	}
	if o.table == "" {
		if o.table, err = stem(files); err != nil {
			return err
		}
	}
	db, err := to.openToRead(ctx, e.say, e.debug)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	rejects, err := job.ParseRejects("discard")
	if err != nil {
		return err
	}
	lines := &concatReader{ctx: ctx, files: files, maxLine: int(o.maxLine)}
	defer func() { err = errors.Join(err, lines.Close()) }()
	v := &verifier{database: db, ctx: ctx, env: e, show: show}
	p := job.NewProgress()
	err = job.Run(ctx, job.Config{Sources: []string{"-"}, Source: source.Options{MaxLine: int(o.maxLine), Stdin: lines, Compression: source.None}, Table: o.table, Fold: opt,
		BatchPeriod: math.MaxInt64, BatchRows: math.MaxInt, Buffer: math.MaxInt64, Rejects: rejects, MaxRejects: math.MaxInt64, Warn: e.say, Info: func(string, ...any) {}}, v, p)
	if err := cmp.Or(err, ctx.Err()); err != nil {
		return err
	}
	return v.report(ctx, counted(p.Lines.Load(), "line"))
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
	_, err = fmt.Fprintf(v.env.stdout, "%s of table %s %s the fold of %s\n", rows, name, are, lines)
	return err
}
