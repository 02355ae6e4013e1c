package mapping_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/foldtest"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/testcheck"
)

// TestMapping_VersionsInAnyOrder: messages with versions make the same tables in any order and any
// batches, where deletes of rows take those that belong to them.
func TestMapping_VersionsInAnyOrder(t *testing.T) {
	n := uint64(testcheck.Rounds(200, 1000))
	rows := 0
	sinktest.Seeds(t, n, func(t *testing.T, rnd *rand.Rand) {
		d := &draw{Rand: rnd}
		m := mapping.Mapping{Tables: d.orders()}
		m.Tables[0].Scope = fold.ColumnScope
		lines := make([]string, 1+rnd.IntN(40))
		for i := range lines {
			lines[i] = strings.Replace(strings.TrimSuffix(d.message(), "}")+fmt.Sprintf(`,"v":%d}`, i), "{,", "{", 1)
		}
		tables := func() (all []string) {
			db := newMapDB(t, &m, true)
			db.model = foldtest.NewModel(&m, true)
			db.sync(lines, rnd)
			for _, table := range m.Tables {
				all = append(all, append(db.show(table.Name), table.Name)...)
			}
			return all
		}
		want := tables()
		rows += len(want) - len(m.Tables)
		first := slices.Clone(lines)
		rnd.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
		if got := tables(); !slices.Equal(got, want) {
			t.Fatalf("%s\n%s\nmake\n%s\nand in the order\n%s\nthey make\n%s", describe(&m), strings.Join(first, "\n"), strings.Join(want, "\n"), strings.Join(lines, "\n"), strings.Join(got, "\n"))
		}
	})
	if rows < int(n) && os.Getenv(sinktest.SeedVariable) == "" {
		t.Errorf("did not exercise: %d rows", rows)
	}
}

// TestMapping_DeleteWithoutAVersion: a delete that cannot be compared with the rows that it takes is
// rejected. Files have none, but records of Kafka may be deletes.
func TestMapping_DeleteWithoutAVersion(t *testing.T) {
	m := mapping.Mapping{Tables: []mapping.Table{
		{Name: "orders", Key: []string{"id"}, DeleteWhen: when("op=delete"), Columns: columns("id")},
		{Name: "items", Of: "orders", Each: path("items"), Set: mapping.MergeSet, Key: []string{"sku"}, Columns: columns("sku")},
		{Name: "taxes", Of: "items", Each: path("taxes"), Set: mapping.MergeSet, Key: []string{"code"}, Columns: columns("code"), Version: path("v")},
	}}
	got := newMapDB(t, &m, true).sync([]string{`{"id":1,"items":[{"sku":"x","taxes":[{"code":"a","v":1}]}]}`, `{"id":1,"op":"delete"}`}, rand.New(rand.NewPCG(1, 1)))
	if want := []string{"taken", "rejected"}; !slices.Equal(got, want) {
		t.Errorf("the messages are %q, want %q", got, want)
	}
}

// orders are tables whose rows go by deletes of those that they belong to, with versions.
func (d *draw) orders() []mapping.Table {
	orders := mapping.Table{Name: "orders", Key: []string{"id"}, DeleteWhen: when("op=delete"), Version: path("$.v"), Scope: fold.Scope(d.of("column", "column", "row")), Columns: columns("id, a, c: b, ver: $.v as text")}
	items := mapping.Table{Name: "items", Of: "orders", Each: path("items"), Set: mapping.MergeSet, Key: []string{"sku"}, Columns: columns("sku, qty, a, ver: $.v as text")}
	taxes := mapping.Table{Name: "taxes", Of: "items", Each: path("taxes"), Set: mapping.MergeSet, Key: []string{"code"}, Columns: columns("code, amount, ver: $.v as text")}
	items.Parent = map[string]string{"id": "order_id"}
	if d.one(3) {
		orders.ID, items.Parent = "oid", nil
	}
	if d.one(3) {
		items.ID = "iid"
	}
	if d.one(2) {
		items.DeleteWhen = when("qty=0")
	}
	if d.one(4) {
		taxes.Set = mapping.ReplaceSet
	}
	if d.one(4) {
		orders.Null = fold.KeepNull
	}
	return []mapping.Table{orders, items, taxes}
}

// update is an element that tables of orders take.
func (d *draw) update() string {
	var fields []string
	for _, f := range []string{`"qty":` + d.of("0", "1", "2", "null"), `"a":` + d.of("1", "2", "null"), `"taxes":[{"code":` + d.of("1", "2") + `,"amount":` + d.of("5", "6", "null") + `}]`} {
		if d.one(2) {
			fields = append(fields, f)
		}
	}
	return "{" + strings.Join(append(fields, `"sku":`+d.of(`"x"`, `"y"`)), ",") + "}"
}

// keepVersion gives a table, whose rows have the version of those above, the column that it is kept in.
func keepVersion(t *mapping.Table) {
	if t.Set != mapping.MergeSet || t.Version.Base != mapping.NoBase {
		return
	}
	if t.Columns == nil {
		t.Columns = columns(t.Key[0])
	}
	t.Columns = append(t.Columns, columns("ver: $.v as text")...)
}

// taken are the rows of a table that go with rows above that some message deletes.
func (db *mapDB) taken(table int, resolver *fold.Resolver, rows [][]*fold.Row) []*fold.Row {
	taking := resolver.Taking(rows[table])
	_, names := db.plan.Parent(table)
	names = append(slices.Clone(names), db.plan.Table(table).Key...)
	for of := db.set.Batches[table].Child; of != nil; of = db.set.Batches[of.Parent].Child {
		above := db.set.Batches[of.Parent]
		for _, r := range rows[of.Parent] {
			for _, row := range db.tables[table].rows {
				var key [][]byte
				for _, name := range names {
					key = append(key, []byte(row[name]))
				}
				if v := above.Takes(r); v != nil && string(fold.AppendKey(nil, &above.Table, key[:len(above.Table.Key)])) == string(r.Key) {
					taking.Add(key, v)
				}
			}
		}
	}
	return taking.Rows()
}
