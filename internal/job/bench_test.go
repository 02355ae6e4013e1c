package job_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/weirsync/weir/internal/bench"
	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/job"
	"github.com/weirsync/weir/internal/logtest"
	"github.com/weirsync/weir/internal/progress"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/testcheck"
	"github.com/weirsync/weir/internal/testpg"
)

const benchRows = 50_000

// distinct are benchRows messages of as many ids, with 38 text columns, of which each names a half.
func distinct(b *testing.B, seed uint64) [][]byte {
	var lines bytes.Buffer
	testcheck.NoError(b, bench.Distinct(&lines, benchRows, seed))
	return slices.Collect(bytes.Lines(lines.Bytes()))
}

// narrow are messages with the first two of their columns alone.
func narrow(lines [][]byte) [][]byte {
	short := make([][]byte, len(lines))
	for i, line := range lines {
		short[i] = append(bytes.Join(bytes.SplitN(line, []byte(","), 4)[:3], []byte(",")), "}\n"...)
	}
	return short
}

// withVersions are messages with a version, which is newer than those of the ones before.
func withVersions(messages [3][][]byte) (all [3][][]byte) {
	for n, lines := range messages {
		for _, line := range lines {
			all[n] = append(all[n], append(fmt.Appendf(nil, `{"v":%d,`, n), line[1:]...))
		}
	}
	return all
}

// half are messages of which every other pair is of other ones.
func half(lines, of [][]byte) [][]byte {
	lines = slices.Clone(lines)
	for i := range lines {
		if i/2%2 == 0 {
			lines[i] = of[i]
		}
	}
	return lines
}

// folded is the batch of messages.
func folded(b *testing.B, lines [][]byte) *fold.Batch {
	o := fold.Options{Limits: schema.Limits{FoldCase: true, Untyped: true}, Key: []string{"id"}, Columns: fold.AddColumns, MaxColumns: 100, Log: logtest.New(b)}
	if bytes.HasPrefix(lines[0], []byte(`{"v":`)) {
		o.Version, o.Scope = "v", fold.ColumnScope
	}
	f := fold.NewFolder(&feed.Names{}, schema.Table{Name: "t"}, o)
	batch := &fold.Batch{}
	for _, line := range lines {
		testcheck.NoError(b, f.Fold(batch, line, fold.Place{}))
	}
	f.Seal(batch)
	return batch
}

// emptyOf is where a database of a kind is, which is empty.
var emptyOf = map[string]func(b *testing.B) (dest string, level sink.Level){
	"sqlite":   func(b *testing.B) (string, sink.Level) { return filepath.Join(b.TempDir(), "t.db"), sink.Normal },
	"postgres": func(b *testing.B) (string, sink.Level) { return testpg.New(b), sink.Full },
}

// BenchmarkFlush writes batches of 50,000 rows of 38 text columns, and of 4.
func BenchmarkFlush(b *testing.B) {
	wide := [3][][]byte{distinct(b, 1), distinct(b, 2), distinct(b, 3)}
	few := [3][][]byte{narrow(wide[0]), narrow(wide[1]), narrow(wide[2])}
	for _, driver := range []string{"sqlite", "postgres"} {
		for _, kind := range []string{"insert", "update", "unchanged", "half"} { // half: of the rows nothing changes
			b.Run(driver+"/"+kind, func(b *testing.B) { benchmarkFlush(b, wide, emptyOf[driver], kind) })
			b.Run(driver+"/"+kind+"/narrow", func(b *testing.B) { benchmarkFlush(b, few, emptyOf[driver], kind) })
		}
		for _, kind := range []string{"insert", "update"} {
			b.Run(driver+"/"+kind+"/versions", func(b *testing.B) { benchmarkFlush(b, withVersions(wide), emptyOf[driver], kind) })
		}
	}
}

func benchmarkFlush(b *testing.B, messages [3][][]byte, empty func(b *testing.B) (string, sink.Level), kind string) {
	b.ReportAllocs()
	first, second, next := folded(b, messages[0]), folded(b, messages[1]), (*fold.Batch)(nil)
	switch kind {
	case "insert":
		next = first
	case "update":
		next = folded(b, messages[2])
	case "unchanged":
		next = second
	case "half":
		next = folded(b, half(messages[1], messages[2]))
	}
	want := map[string]sink.Counts{"insert": {Inserted: benchRows}, "update": {Updated: benchRows}, "unchanged": {Unchanged: benchRows},
		"half": {Updated: benchRows / 2, Unchanged: benchRows / 2}}[kind]
	n := 0
	for b.Loop() {
		b.StopTimer()
		dest, level := empty(b)
		db := openSink(b, dest, level)
		flush := func(f *fold.Batch, seq int64) sink.Counts {
			res, err := db.Flush(b.Context(), &sink.Flush{Batches: []*fold.Batch{f}, Job: "j", Run: "r", Lanes: []sink.Lane{{Source: "s", Checkpoint: sink.Checkpoint{Seq: seq}}}})
			testcheck.NoError(b, err)
			return res.Total()
		}
		if _, err := sink.Table(b.Context(), db.Tables, "t", []string{"id"}); err != nil {
			b.Fatal(err)
		}
		seq := int64(1)
		if kind != "insert" { // what is measured is not the first of its kind
			flush(first, 1)
			flush(second, 2)
			seq = 3
		}
		b.StartTimer()
		got := flush(next, seq)
		b.StopTimer()
		if got != want {
			b.Fatalf("%+v", got)
		}
		testcheck.NoError(b, db.Close())
		n += benchRows
		b.StartTimer()
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "rows/s")
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
			testcheck.NoError(b, err)
			testcheck.NoError(b, write(f))
			size, _ := f.Seek(0, io.SeekCurrent)
			f.Close()
			b.SetBytes(size)
			i := 0
			for b.Loop() {
				i++
				db := openSink(b, filepath.Join(b.TempDir(), fmt.Sprint(i, ".db")), sink.Normal)
				rejects, _ := job.ParseRejects("fail")
				err = job.Run(b.Context(), job.Config{Sources: []string{path}, Job: "t", BatchRows: 100_000, Buffer: 256 << 20, Rejects: rejects,
					Tables: []job.Table{{Name: "t", Fold: fold.Options{Key: []string{"id"}, MaxColumns: 100}}}, Log: logtest.New(b)}, db, nil, progress.New("t"))
				testcheck.NoError(b, err)
				testcheck.NoError(b, db.Close())
			}
			b.ReportMetric(float64(i)*messages/b.Elapsed().Seconds(), "msg/s")
		})
	}
}
