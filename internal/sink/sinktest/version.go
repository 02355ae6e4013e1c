package sinktest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/test/foldtest"
	"github.com/weirsync/weir/internal/test/testcheck"
)

func keepNull(o *fold.Options)   { o.Null = fold.KeepNull }
func fillOnly(o *fold.Options)   { o.FillOnly = true }
func addColumns(o *fold.Options) { o.UnknownFields = fold.AddUnknown }

// options are changes to a run's options.
type options = []func(*fold.Options)

func byColumn(o *fold.Options) { o.Version, o.Scope = "v", fold.ColumnScope }
func byRow(o *fold.Options)    { o.Version, o.Scope = "v", fold.RowScope }

// versionTests: each column has the value of the newest message that had it, in whatever order messages come.
var versionTests = []test{
	{"ATableThatGrowsAColumnEachTime", func(t *testing.T, db Database) {
		r := Begin(t, db, byColumn)
		for n := range 100 {
			r.Flush(fmt.Sprintf(`{"id":1,"v":%d,"c%d":%d}`, n, n, n), fmt.Sprintf(`{"id":2,"v":%d,"op":"delete"}`, n), `{"id":1,"v":0,"late":"x"}`)
		}
		Expect(t, db, "SELECT id, v, late, c0, c30, c99 FROM t", "1|99|x|0|30|99")
	}},
	{"TombstonesExpire", func(t *testing.T, db Database) {
		r := Begin(t, db, byColumn)
		r.Flush(`{"id":1,"v":5,"a":"x"}`, `{"id":1,"v":6,"op":"delete"}`, `{"id":2,"v":1,"a":"x"}`)
		Expect(t, db, "SELECT count(*) FROM weir_versions WHERE gone IS NOT NULL", "1")
		r.Flush(`{"id":1,"v":5,"a":"again"}`)
		Expect(t, db, "SELECT id FROM t", "2")
		r.FlushAs(func(f *sink.Flush) { f.Tombstones = -10 * time.Second }, `{"id":3,"v":1,"a":"x"}`) // as if ten seconds had passed
		Expect(t, db, "SELECT count(*) FROM weir_versions WHERE gone IS NOT NULL", "0")
		r.Flush(`{"id":1,"v":5,"a":"again"}`)
		Expect(t, db, "SELECT id FROM t ORDER BY id", "1", "2", "3")
	}},
}

// PlainFold returns the rows of a simple model of folding messages by their versions: id, v, a, b and c.
func PlainFold(t *testing.T, lines []string, rowScope bool) (rows []string) {
	t.Helper()
	table := foldtest.NewTable(foldtest.Rules{Key: []string{"id"}, DeleteField: "op", DeleteValue: "delete", MaxColumns: 100, Version: "v", RowScope: rowScope}, foldtest.Limits{})
	for _, line := range lines {
		testcheck.NoError(t, table.Apply([]byte(line)))
	}
	byID := map[int]string{}
	for _, row := range table.Rows() {
		id, err := strconv.Atoi(row["id"].Text)
		testcheck.NoError(t, err)
		v, err := strconv.ParseFloat(row["v"].Text, 64)
		testcheck.NoError(t, err)
		byID[id] = fmt.Sprintf("%d|%v", id, v)
		for _, c := range []string{"a", "b", "c"} {
			byID[id] += "|" + cmp.Or(row[c].Text, "NULL")
		}
	}
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		rows = append(rows, byID[id])
	}
	return rows
}
