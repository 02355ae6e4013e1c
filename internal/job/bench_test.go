package job_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/weirsync/weir/internal/bench"
	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/job"
	"github.com/weirsync/weir/internal/logtest"
	"github.com/weirsync/weir/internal/progress"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/postgres"
	"github.com/weirsync/weir/internal/sink/sqlite"
	"github.com/weirsync/weir/internal/testpg"
)

const benchRows = 50_000

// distinct folds benchRows messages of as many ids, with 38 text columns.
func distinct(b *testing.B, seed uint64) *fold.Batch {
	var lines bytes.Buffer
	if err := bench.Distinct(&lines, benchRows, seed); err != nil {
		b.Fatal(err)
	}
	f := fold.NewFolder(&feed.Names{}, schema.Table{Name: "t"}, fold.Options{Limits: schema.Limits{FoldCase: true, Untyped: true}, Key: []string{"id"}, Columns: fold.AddColumns, MaxColumns: 100, Log: logtest.New(b)})
	batch := &fold.Batch{}
	for line := range bytes.Lines(lines.Bytes()) {
		if err := f.Fold(batch, line, fold.Place{}); err != nil {
			b.Fatal(err)
		}
	}
	f.Seal(batch)
	return batch
}

// drivers open a database of their kind, which is empty.
var drivers = map[string]func(b *testing.B) sink.Sink{
	"sqlite": func(b *testing.B) sink.Sink {
		db, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "t.db"), sqlite.Options{Synchronous: sink.Normal, Log: logtest.New(b)})
		if err != nil {
			b.Fatal(err)
		}
		return db
	},
	"postgres": func(b *testing.B) sink.Sink {
		db, err := postgres.Open(b.Context(), testpg.New(b), sink.Options{Level: sink.Full, Log: logtest.New(b)})
		if err != nil {
			b.Fatal(err)
		}
		return db
	},
}

// BenchmarkFlush writes batches of 50,000 rows of 38 text columns. The limit of
// Postgres is a bare COPY of the same rows into an empty table.
func BenchmarkFlush(b *testing.B) {
	batches := [3]*fold.Batch{distinct(b, 1), distinct(b, 2), distinct(b, 3)}
	b.Run("postgres/copy", func(b *testing.B) { benchmarkCopy(b, batches[0]) })
	for _, driver := range []string{"sqlite", "postgres"} {
		for _, kind := range []string{"insert", "update", "unchanged"} {
			b.Run(driver+"/"+kind, func(b *testing.B) { benchmarkFlush(b, batches, drivers[driver], kind) })
		}
	}
}

func benchmarkFlush(b *testing.B, batches [3]*fold.Batch, open func(b *testing.B) sink.Sink, kind string) {
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		b.StopTimer()
		db := open(b)
		flush := func(f *fold.Batch, seq int64) sink.Result {
			res, err := db.Flush(b.Context(), &sink.Flush{Batches: []*fold.Batch{f}, Job: "j", Run: "r", Lanes: []sink.Lane{{Source: "s", Checkpoint: sink.Checkpoint{Seq: seq}}}})
			if err != nil {
				b.Fatal(err)
			}
			return res
		}
		if _, err := db.Table(b.Context(), "t", []string{"id"}); err != nil {
			b.Fatal(err)
		}
		next, seq := batches[0], int64(1)
		if kind != "insert" { // what is measured is not the first of its kind
			flush(batches[0], 1)
			flush(batches[1], 2)
			seq = 3
		}
		switch kind {
		case "update":
			next = batches[2]
		case "unchanged":
			next = batches[1]
		}
		b.StartTimer()
		res := flush(next, seq)
		b.StopTimer()
		did := res.Total()
		if got := map[string]int64{"insert": did.Inserted, "update": did.Updated, "unchanged": did.Unchanged}[kind]; got != benchRows {
			b.Fatalf("%+v", res)
		}
		if err := db.Close(); err != nil {
			b.Fatal(err)
		}
		n += benchRows
		b.StartTimer()
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "rows/s")
}

// benchmarkCopy copies the batch's rows into a table with the key that weir would
// give it: encoded beforehand, and as values by pgx.
func benchmarkCopy(b *testing.B, batch *fold.Batch) {
	var lines bytes.Buffer
	var names []string
	for i := range batch.Table.Columns {
		names = append(names, batch.Table.Columns[i].Name)
	}
	var values [][]any
	for _, r := range batch.Sorted() {
		row := make([]any, len(names))
		for i := range row {
			if i > 0 {
				lines.WriteByte('\t')
			}
			if v := batch.Value(r, i); v == nil {
				lines.WriteString(`\N`)
			} else {
				text := bytes.Trim(v, `"`) // the feed has no escapes
				lines.Write(text)
				row[i] = string(text)
			}
		}
		lines.WriteByte('\n')
		values = append(values, row)
	}
	conn, err := pgx.Connect(b.Context(), testpg.New(b))
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close(context.Background())
	exec := func(sql string) {
		if _, err := conn.Exec(b.Context(), sql); err != nil {
			b.Fatal(err)
		}
	}
	copies := map[string]func() error{
		"encoded": func() error {
			_, err := conn.PgConn().CopyFrom(b.Context(), bytes.NewReader(lines.Bytes()), "COPY t FROM STDIN")
			return err
		},
		"values": func() error {
			_, err := conn.CopyFrom(b.Context(), pgx.Identifier{"t"}, names, pgx.CopyFromRows(values))
			return err
		},
	}
	for _, kind := range []string{"encoded", "values"} {
		b.Run(kind, func(b *testing.B) {
			n := 0
			for b.Loop() {
				b.StopTimer()
				exec("DROP TABLE IF EXISTS t")
				exec(postgres.Create(&batch.Table))
				b.StartTimer()
				if err := copies[kind](); err != nil {
					b.Fatal(err)
				}
				n += benchRows
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// BenchmarkSync is the whole way of a file into a new database.
func BenchmarkSync(b *testing.B) {
	const messages = 200_000
	for name, write := range map[string]func(io.Writer) error{
		"hot":      func(w io.Writer) error { return bench.Hot(w, messages, messages/20, 1) },
		"shapes":   func(w io.Writer) error { return bench.Shapes(w, messages, messages/20, 1) },
		"distinct": func(w io.Writer) error { return bench.Distinct(w, messages, 1) },
	} {
		b.Run(name, func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "feed.jsonl")
			f, err := os.Create(path)
			if err != nil {
				b.Fatal(err)
			}
			if err := write(f); err != nil {
				b.Fatal(err)
			}
			size, _ := f.Seek(0, io.SeekCurrent)
			f.Close()
			b.SetBytes(size)
			i := 0
			for b.Loop() {
				i++
				db, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), fmt.Sprint(i, ".db")), sqlite.Options{Synchronous: sink.Normal, Log: logtest.New(b)})
				if err != nil {
					b.Fatal(err)
				}
				rejects, _ := job.ParseRejects("fail")
				err = job.Run(b.Context(), job.Config{Sources: []string{path}, Job: "t", BatchRows: 100_000, Buffer: 256 << 20, Rejects: rejects,
					Tables: []job.Table{{Name: "t", Fold: fold.Options{Key: []string{"id"}, MaxColumns: 100}}}, Log: logtest.New(b)}, db, nil, progress.New("t"))
				if err != nil {
					b.Fatal(err)
				}
				if err := db.Close(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(i)*messages/b.Elapsed().Seconds(), "msg/s")
		})
	}
}
