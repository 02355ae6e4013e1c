package pipeline_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/pipeline"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/postgres"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/status"
	"github.com/weirsync/weir/internal/test/bench"
	"github.com/weirsync/weir/internal/test/logtest"
	"github.com/weirsync/weir/internal/test/testcheck"
	"github.com/weirsync/weir/internal/test/testpg"
)

var benchRows = 50_000 // TestMain sets 5_000 with -short

// distinct returns benchRows messages with distinct ids and 38 text columns, of which each message has half.
func distinct(b *testing.B, seed uint64) [][]byte {
	var lines bytes.Buffer
	testcheck.NoError(b, bench.Distinct(&lines, benchRows, seed))
	return slices.Collect(bytes.Lines(lines.Bytes()))
}

// folded returns the batch of messages with key id.
func folded(b *testing.B, lines [][]byte) *fold.Batch { return foldedBy(b, lines, "id") }

// foldedBy returns the batch of messages for a key.
func foldedBy(b *testing.B, lines [][]byte, key ...string) *fold.Batch {
	o := fold.Options{Key: key, Rules: fold.Rules{UnknownFields: fold.AddUnknown, MaxColumns: 100}, Limits: schema.Limits{FoldCase: true, Untyped: true}, Log: logtest.New(b)}
	if bytes.HasPrefix(lines[0], []byte(`{"v":`)) {
		o.Version, o.Scope = "v", fold.ColumnScope
	}
	f := sinktest.NewFolder(schema.Table{Name: "t"}, o, "")
	batch := &fold.Batch{}
	for _, line := range lines {
		testcheck.NoError(b, f.Fold(batch, line, fold.Place{}))
	}
	f.Seal(batch)
	return batch
}

// BenchmarkSync reads a file into a new database.
func BenchmarkSync(b *testing.B) {
	messages := 4 * benchRows
	for name, write := range map[string]func(io.Writer) error{
		"hot":      func(w io.Writer) error { return bench.Hot(w, messages, messages/20, 1) },
		"shapes":   func(w io.Writer) error { return bench.Shapes(w, messages, messages/20, 1) },
		"distinct": func(w io.Writer) error { return bench.Distinct(w, messages, 1) },
	} {
		b.Run(name, func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "feed.jsonl")
			f, err := os.Create(path)
			testcheck.NoError(b, err)
			testcheck.NoError(b, write(f))
			size, _ := f.Seek(0, io.SeekCurrent)
			f.Close()
			b.SetBytes(size)
			i := 0
			for b.Loop() {
				i++
				db := openSink(b, filepath.Join(b.TempDir(), fmt.Sprint(i, ".db")), sink.Normal)
				c := pipeline.Config{Kind: kindOf(path), Sources: []string{path}, Job: "t", Limits: pipeline.Limits{BatchRows: 100_000, Buffer: 256 << 20}, Rejects: pipeline.RejectRules{To: pipeline.FailRejects}, Log: logtest.New(b)}
				plainTable(b, &c, mapping.Table{Rules: fold.Rules{MaxColumns: 100}})
				testcheck.NoError(b, pipeline.Run(b.Context(), c, db, nil, status.New("t")))
				testcheck.NoError(b, db.Close())
			}
			b.ReportMetric(float64(i*messages)/b.Elapsed().Seconds(), "msg/s")
		})
	}
}

// used is the cost of a statement or flush.
type used struct {
	wall, cpu time.Duration // cpu: of its backend
	log       int64         // WAL bytes
}

// BenchmarkFlush_OfCopy compares flushes into Postgres with a bare COPY of the rows into an empty table with the same
// key, or none. The two alternate: of-copy is the ratio of their rates. All figures are medians.
func BenchmarkFlush_OfCopy(b *testing.B) {
	first, second, third := folded(b, distinct(b, 1)), folded(b, distinct(b, 2)), folded(b, distinct(b, 3))
	lines := copyLines(first)
	for _, c := range []struct {
		name string
		want sink.Counts
		all  []*fold.Batch // the last one is measured
	}{
		{"insert", sink.Counts{Inserted: int64(benchRows)}, []*fold.Batch{first}},
		{"append", sink.Counts{Inserted: int64(benchRows)}, []*fold.Batch{foldedBy(b, distinct(b, 1))}},
		{"update", sink.Counts{Updated: int64(benchRows)}, []*fold.Batch{first, second, third}},
		// First with MERGE, then without.
		{"unchanged", sink.Counts{Unchanged: int64(benchRows)}, []*fold.Batch{first, second, second}},
		{"repeated", sink.Counts{Unchanged: int64(benchRows)}, []*fold.Batch{first, first, first}},
	} {
		b.Run(c.name, func(b *testing.B) { benchmarkOfCopy(b, lines, c.want, c.all) })
	}
}

func benchmarkOfCopy(b *testing.B, lines []byte, want sink.Counts, batches []*fold.Batch) {
	server := testpg.Start(b, "fsync=on", "shared_buffers=256MB", "max_wal_size=8GB", "checkpoint_timeout=1h", "autovacuum=off")
	conn, err := pgx.Connect(b.Context(), server.Database(b))
	testcheck.NoError(b, err)
	defer conn.Close(context.Background())
	exec := func(sql string) {
		if _, err := conn.Exec(b.Context(), sql); err != nil {
			b.Fatal(err)
		}
	}
	var flushed, copied []used
	var ratios []float64
	for b.Loop() {
		exec("DROP TABLE IF EXISTS t")
		exec(postgres.Create(&batches[0].Table))
		c := measure(b, conn, conn.PgConn().PID(), func() {
			if _, err := conn.PgConn().CopyFrom(b.Context(), bytes.NewReader(lines), "COPY t FROM STDIN"); err != nil {
				b.Fatal(err)
			}
		})
		f := measureFlush(b, conn, server.Database(b), want, batches)
		copied, flushed, ratios = append(copied, c), append(flushed, f), append(ratios, float64(c.wall)/float64(f.wall))
	}
	b.ReportMetric(median(ratios), "of-copy")
	for name, all := range map[string][]used{"": flushed, "copy-": copied} {
		report := func(unit string, of func(used) float64) {
			values := make([]float64, len(all))
			for i, u := range all {
				values[i] = of(u) / float64(benchRows)
			}
			b.ReportMetric(median(values), name+unit)
		}
		report("wall-µs/row", func(u used) float64 { return float64(u.wall) / 1e3 })
		report("backend-µs/row", func(u used) float64 { return float64(u.cpu) / 1e3 })
		report("WAL-B/row", func(u used) float64 { return float64(u.log) })
	}
}

// measureFlush measures the last of several flushes into a new database.
func measureFlush(b *testing.B, conn *pgx.Conn, url string, want sink.Counts, batches []*fold.Batch) (last used) {
	db, err := postgres.Open(b.Context(), url, sink.Options{Level: sink.Full, Log: logtest.New(b)})
	testcheck.NoError(b, err)
	defer db.Close()
	var pid uint32
	testcheck.NoError(b, conn.QueryRow(b.Context(), "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'weir%' ORDER BY backend_start DESC LIMIT 1").Scan(&pid))
	if _, err := sink.Table(b.Context(), db.Tables, "t", batches[0].Table.KeyColumns()); err != nil {
		b.Fatal(err)
	}
	var res sink.Result
	for i, batch := range batches {
		last = measure(b, conn, pid, func() {
			res, err = db.Flush(b.Context(), &sink.Flush{Batches: []*fold.Batch{batch}, Job: "j", Run: "r", Lanes: []sink.Lane{{Source: "s", Checkpoint: sink.Checkpoint{Seq: int64(i + 1)}}}})
		})
		testcheck.NoError(b, err)
	}
	if got := res.Total(); got != want {
		b.Fatalf("%+v", got)
	}
	return last
}

// measure measures what a function costs a backend.
func measure(b *testing.B, conn *pgx.Conn, pid uint32, do func()) used {
	log := func() (n int64) {
		testcheck.NoError(b, conn.QueryRow(b.Context(), "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").Scan(&n))
		return n
	}
	cpu := func() (ns time.Duration) {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid)) // 0 if the system does not have it
		_, _ = fmt.Sscan(string(stat), &ns)
		return ns
	}
	was, used, start := log(), used{cpu: -cpu()}, time.Now()
	do()
	used.wall = time.Since(start)
	used.cpu += cpu()
	used.log = log() - was
	return used
}

func median(all []float64) float64 {
	slices.Sort(all)
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}

// copyLines returns the rows of a batch, without escapes, in COPY's text format.
func copyLines(batch *fold.Batch) []byte {
	var lines bytes.Buffer
	for _, r := range batch.Sorted() {
		values := make([]string, len(batch.Table.Columns))
		for i := range values {
			values[i] = `\N`
			if v := batch.Value(r, i); v != nil {
				values[i] = string(bytes.Trim(v, `"`))
			}
		}
		lines.WriteString(strings.Join(values, "\t") + "\n")
	}
	return lines.Bytes()
}
