package sqlite_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/logtest"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sqlite"
)

// TestFlush_ManyNewRows: runs of new rows, which one statement inserts, among rows that the table has, in
// any order, come out as if each was written by itself, and are counted so.
func TestFlush_ManyNewRows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.db")
	d, names, r := open(t, path, sqlite.Options{Synchronous: sink.Off}), &feed.Names{}, rand.New(rand.NewPCG(1, 1))
	table, err := sink.Table(t.Context(), d.Tables, "t", []string{"id"})
	if err != nil {
		t.Fatal(err)
	}
	folder := fold.NewFolder(names, table, fold.Options{Key: []string{"id"}, Columns: fold.AddColumns, MaxColumns: 10, Limits: d.Caps().Limits, Log: logtest.New(t)})
	want := map[int][2]string{} // what columns a and b hold
	var batch fold.Batch
	for seq := int64(1); seq <= 20; seq++ {
		var expect sink.Counts
		from, step := r.IntN(4000), 1+r.IntN(3)
		for id := from; id < from+1000; id += step {
			row, known := want[id]
			was := row
			line := fmt.Appendf(nil, `{"id":%d`, id)
			for c, name := range []string{"a", "b"} {
				if r.IntN(2) == 0 {
					row[c] = fmt.Sprint("v", r.IntN(2))
					if r.IntN(20*int(seq)) == 0 { // at first more than is copied before it is bound
						row[c] += strings.Repeat("x", 5000)
					}
					line = fmt.Appendf(line, `,%q:%q`, name, row[c])
				}
			}
			if err := folder.Fold(&batch, append(line, '}'), fold.Place{}); err != nil {
				t.Fatal(err)
			}
			switch want[id] = row; {
			case !known:
				expect.Inserted++
			case row != was:
				expect.Updated++
			default:
				expect.Unchanged++
			}
		}
		folder.Seal(&batch)
		res, err := d.Flush(t.Context(), &sink.Flush{Batches: []*fold.Batch{&batch}, Job: "j", Run: "r", Lanes: lanesAt("s", seq)})
		if err != nil {
			t.Fatal(err)
		}
		if res.Total() != expect {
			t.Fatalf("flush %d: %+v, want %+v", seq, res.Total(), expect)
		}
		batch.Reset()
	}
	got := newFile(t, path).Query(t, "SELECT id, coalesce(a, ''), coalesce(b, '') FROM t ORDER BY id")
	if len(got) != len(want) {
		t.Fatalf("%d rows, want %d", len(got), len(want))
	}
	for _, row := range got {
		if id := int(row[0].(int64)); want[id] != [2]string{row[1].(string), row[2].(string)} {
			t.Fatalf("row %v, want %v", row, want[id])
		}
	}
}

// TestFlush_ManyTables: of the statements that insert many rows, only those are kept that were used last; the tables
// of the others are written as well.
func TestFlush_ManyTables(t *testing.T) {
	const tables, rows = sqlite.MaxLarge + 4, 200
	path := filepath.Join(t.TempDir(), "t.db")
	d := open(t, path, sqlite.Options{Synchronous: sink.Off})
	f := &sink.Flush{Job: "j", Run: "r"}
	folders := make([]*fold.Folder, tables)
	for i := range folders {
		table, err := sink.Table(t.Context(), d.Tables, fmt.Sprint("t", i), []string{"id"})
		if err != nil {
			t.Fatal(err)
		}
		folders[i] = fold.NewFolder(&feed.Names{}, table, fold.Options{Key: []string{"id"}, Columns: fold.AddColumns, MaxColumns: 10, Limits: d.Caps().Limits, Log: logtest.New(t)})
		f.Batches = append(f.Batches, &fold.Batch{})
	}
	for seq := range 3 {
		for i, folder := range folders {
			f.Batches[i].Reset()
			for id := range rows {
				if err := folder.Fold(f.Batches[i], fmt.Appendf(nil, `{"id":%d,"a":"x%d"}`, seq*rows+id, i), fold.Place{}); err != nil {
					t.Fatal(err)
				}
			}
			folder.Seal(f.Batches[i])
		}
		f.Lanes = lanesAt("s", int64(seq+1))
		if _, err := d.Flush(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		if n := d.LargeStatements(); n != sqlite.MaxLarge {
			t.Errorf("%d statements of many rows, want %d", n, sqlite.MaxLarge)
		}
	}
	for i := range tables {
		if got := newFile(t, path).Query(t, fmt.Sprintf("SELECT count(*) FROM t%d WHERE a = 'x%[1]d'", i))[0][0]; got != int64(3*rows) {
			t.Errorf("table t%d has %v rows, want %d", i, got, 3*rows)
		}
	}
}
