package sinktest

import (
	"errors"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
)

// untypedShop is the shop of which the values alone tell the types.
func untypedShop(t *testing.T) *mapping.Mapping {
	return untyped(Shop(t))
}

func untyped(m *mapping.Mapping) *mapping.Mapping {
	for i, spec := range []string{"id, status", "sku, qty", "code, amount"} {
		m.Tables[i].Columns = columns(spec)
	}
	return m
}

// ordersAlone writes to the orders of the shop as a job does that knows no table below.
func ordersAlone(t *testing.T, db Database) *Run {
	t.Helper()
	return BeginTable(t, db, "orders", "id")
}

// refusesOrphans demands that an item without its order, and a tax without its item, be refused.
func refusesOrphans(t *testing.T, db Database) {
	t.Helper()
	for _, c := range []struct{ table, keys, line string }{
		{"items", "order_id,sku", `{"order_id":999,"sku":"x"}`},
		{"taxes", "order_id,sku,code", `{"order_id":999,"sku":"x","code":"a"}`},
	} {
		r := BeginTable(t, db, c.table, strings.Split(c.keys, ",")...)
		if _, err := r.TryFlush(c.line); !errors.As(err, new(sink.ErrUnlogged)) {
			t.Errorf("%s took an orphan: %v", c.table, err)
		}
		r.End()
	}
}

// foreignTests: the foreign keys of tables that weir makes.
var foreignTests = []test{
	{"OrphansAreRejected", func(t *testing.T, db Database) {
		n := BeginNested(t, db, Shop(t), false)
		Counts(t, n.Flush(`{"id":1,"items":[{"sku":"x","taxes":[{"code":"a"}]}]}`), 3, 0, 0, 0)
		n.End()
		refusesOrphans(t, db)
		shopIs(t, db, rows{"1|NULL"}, rows{"1|x|NULL"}, rows{"1|x|a|NULL"})
	}},
	{"ADeleteByOthersCascades", func(t *testing.T, db Database) {
		n := BeginNested(t, db, Shop(t), false)
		n.Flush(`{"id":1,"items":[{"sku":"x","taxes":[{"code":"a"}]}]}`, `{"id":2,"items":[{"sku":"x","taxes":[{"code":"a"},{"code":"b"}]},{"sku":"y"}]}`)
		r := ordersAlone(t, db)
		Counts(t, r.Flush(`{"id":1,"op":"delete"}`), 0, 0, 0, 1)
		r.End()
		shopIs(t, db, rows{"2|NULL"}, rows{"2|x|NULL", "2|y|NULL"}, rows{"2|x|a|NULL", "2|x|b|NULL"})
		tablesCount(t, n.Flush(`{"id":1,"items":[{"sku":"y"}]}`), sink.Counts{Inserted: 1}, sink.Counts{Inserted: 1}, sink.Counts{})
		tablesCount(t, n.Flush(`{"id":2,"op":"delete"}`), sink.Counts{Deleted: 1}, sink.Counts{Deleted: 2}, sink.Counts{Deleted: 2}) // ours count
		shopIs(t, db, rows{"1|NULL"}, rows{"1|y|NULL"}, nil)
	}},
	{"TheyAreNoConstraintsToWeir", func(t *testing.T, db Database) {
		n := BeginNested(t, db, Shop(t), false)
		n.Flush(`{"id":1,"items":[{"sku":"x","taxes":[{"code":"a"}]}]}`)
		n.End()
		look := func(name string, keys ...string) schema.Table {
			t.Helper()
			s := db.Open(t)
			defer s.Close()
			found, err := sink.Table(t.Context(), s.Tables, name, keys)
			if err != nil {
				t.Fatal(err)
			}
			return found
		}
		for i, found := range []schema.Table{look("orders", "id"), look("items", "order_id", "sku"), look("taxes", "order_id", "sku", "code")} {
			if found.HasConstraints || !found.Made || len(found.ForeignKeys) != min(i, 1) || len(found.Referrers) != min(2-i, 1) {
				t.Errorf("table %+v", found)
			}
		}
		theirs(t, db, "CREATE TABLE notes (id integer PRIMARY KEY, no bigint REFERENCES orders (id))")
		if found := look("orders", "id"); !found.HasConstraints || found.Made {
			t.Errorf("with a foreign key of others: %+v", found)
		}
		if found := look("notes", "id"); !found.HasConstraints || found.Made {
			t.Errorf("with one of its own: %+v", found)
		}
	}},
	{"AKeyIsWidenedWithItsReferences", func(t *testing.T, db Database) {
		n := BeginNested(t, db, untypedShop(t), false)
		n.Flush(`{"id":1,"items":[{"sku":5,"taxes":[{"code":"a"}]}]}`)
		n.Flush(`{"id":2,"items":[{"sku":5,"taxes":[{"code":"a"}]}]}`)
		n.End()
		n = BeginNested(t, db, untypedShop(t), false)
		n.Flush(`{"id":"x"}`) // with no row below
		for i := range n.plan.Tables() {
			have, err := n.table(i)
			if err != nil || have.Columns[0].Type != schema.Text || !have.Columns[0].Own || len(have.ForeignKeys) != min(i, 1) {
				t.Errorf("table %+v, %v", have, err)
			}
		}
		n.Flush(`{"id":"01","items":[{"sku":"y","taxes":[{"code":"a"}]}]}`, `{"id":2,"op":"delete"}`)
		n.End()
		n = BeginNested(t, db, untypedShop(t), false)
		n.Flush(`{"id":"x","items":[{"sku":5}]}`)
		Expect(t, db, "SELECT order_id, sku FROM items ORDER BY order_id, sku", "01|y", "1|5", "x|5")
		Expect(t, db, "SELECT order_id, sku, code FROM taxes ORDER BY order_id", "01|y|a", "1|5|a")
		n.End()
		refusesOrphans(t, db)
	}},
	{"AReferenceHasTheTypeOfItsKey", func(t *testing.T, db Database) {
		for _, batches := range [][]string{
			{`{"id":1}`, `{"id":"1","items":[{"sku":5,"taxes":[{"code":"a"}]}]}`, `{"id":2,"items":[{"sku":5}]}`},
			{`{"id":1}` + "\n" + `{"id":"1","items":[{"sku":5,"taxes":[{"code":"a"}]}]}`, `{"id":"2","items":[{"sku":5}]}`},
		} {
			n := BeginNested(t, db, untypedShop(t), false)
			for _, lines := range batches {
				n.Flush(strings.Split(lines, "\n")...)
			}
			for i := range n.plan.Tables() {
				have, err := n.table(i)
				if err != nil || have.Columns[0].Type != schema.Int {
					t.Errorf("table %+v, %v", have, err)
				}
			}
			Expect(t, db, "SELECT order_id, sku FROM items ORDER BY order_id", "1|5", "2|5")
			Expect(t, db, "SELECT order_id, sku, code FROM taxes", "1|5|a")
			n.drop(db)
		}
	}},
	{"AKeyThatOtherTablesReferTo", func(t *testing.T, db Database) {
		n := BeginNested(t, db, untypedShop(t), false)
		n.Flush(`{"id":1,"items":[{"sku":5}]}`)
		n.End()
		r := ordersAlone(t, db)
		if _, err := r.TryFlush(`{"id":"x"}`); !errors.As(err, new(sink.ErrChanged)) || !strings.Contains(err.Error(), "items") {
			t.Errorf("the key was widened alone: %v", err)
		}
	}},
	{"Rebuild", func(t *testing.T, db Database) {
		n := BeginNested(t, db, Shop(t), false)
		n.Flush(`{"id":1,"items":[{"sku":"x","taxes":[{"code":"a"}]}]}`)
		n.Fold(`{"id":2,"items":[{"sku":"y"}]}`)
		f := n.Seal()
		f.Rebuild = true
		if _, err := n.Sink.Flush(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		n.End()
		shopIs(t, db, rows{"2|NULL"}, rows{"2|y|NULL"}, nil)
		refusesOrphans(t, db)
		r := Setup{Tables: lines{"orders"}}.Begin(t, db)
		r.Fold(`{"id":3}`)
		f = r.Seal()
		f.Rebuild = true
		if _, err := r.Send(f); err == nil || !strings.Contains(err.Error(), "items") {
			t.Errorf("a table was emptied whose rows others refer to: %v", err)
		}
		shopIs(t, db, rows{"2|NULL"}, rows{"2|y|NULL"}, nil)
	}},
	{"NoneAreAddedToTablesThatExist", func(t *testing.T, db Database) {
		for table, key := range map[string][]string{"orders": {"id"}, "items": {"order_id", "sku"}} {
			r := BeginTable(t, db, table, key...)
			r.Flush(`{"id":1,"status":"s","order_id":7,"sku":"x","qty":1}`)
			r.End()
		}
		n := BeginNested(t, db, untypedShop(t), false)
		n.Flush(`{"id":"a","items":[{"sku":"x","taxes":[{"code":"a"}]}]}`)
		n.Flush(`{"id":1,"op":"delete"}`)
		Expect(t, db, "SELECT order_id, sku FROM items ORDER BY order_id", "7|x", "a|x") // an orphan is left as it is
		Expect(t, db, "SELECT order_id, sku, code FROM taxes", "a|x|a")
	}},
	{"NamesThatNeedQuotes", func(t *testing.T, db Database) {
		m := Shop(t)
		m.Tables[0].Columns = columns(`the "no": id as integer, status: as text`)
		m.Tables[0].Key = []string{`the "no"`}
		m.Tables[1].Parent = map[string]string{`the "no"`: `select ''`}
		for range 2 {
			n := BeginNested(t, db, m, false)
			n.Flush(`{"id":1,"items":[{"sku":"x","taxes":[{"code":"a"}]}]}`)
			if have, err := sink.Table(t.Context(), n.Sink.Tables, "taxes", []string{`select ''`, "sku", "code"}); err != nil || len(have.ForeignKeys) != 1 || have.HasConstraints {
				t.Errorf("table %+v, %v", have, err)
			}
			n.End()
		}
	}},
}
