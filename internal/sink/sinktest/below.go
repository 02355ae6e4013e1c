package sinktest

import (
	"reflect"
	"slices"
	"testing"

	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/sink"
)

// belowTests: rows that belong to old rows go with these.
var belowTests = slices.Concat([]test{
	{"ChildrenGo", func(t *testing.T, db Database) {
		m := MergedShop(t)
		m.Tables[0].Columns = append(m.Tables[0].Columns, columns("at: stamp insert")...)
		n := BeginNested(t, db, m, false)
		n.stock()
		if got := n.expire(0, 30); !reflect.DeepEqual(got, sink.Expired{Removed: 2, Below: []int64{3, 4}}) {
			t.Errorf("%+v", got)
		}
		shopIs(t, db, rows{"3|young"}, rows{"3|x|NULL"}, rows{"3|x|a|NULL"})
		if got := n.expire(0, 30); !reflect.DeepEqual(got, sink.Expired{}) {
			t.Errorf("again: %+v", got)
		}
		Counts(t, n.Flush(`{"id":1,"items":[{"sku":"x"}]}`), 2, 0, 0, 0)
	}},
}, needing(Nestable, []test{
	{"OfTablesInTheMiddle", func(t *testing.T, db Database) {
		for _, order := range []string{"", "oid"} {
			m := generated(t, order, "")
			m.Tables[1].Columns = append(m.Tables[1].Columns, columns("at: as timestamp")...)
			n := BeginNested(t, db, m, false)
			n.Flush(`{"id":1,"items":[{"sku":"x","at":"2020-05-15T13:00:00Z","taxes":[{"code":"a"}]},{"sku":"y","at":"2020-05-15T14:00:00Z","taxes":[{"code":"a"}]}]}`)
			if got := n.expire(1, 30); !reflect.DeepEqual(got, sink.Expired{Removed: 1, Below: []int64{1}}) {
				t.Errorf("%+v", got)
			}
			Expect(t, db, "SELECT sku, code FROM taxes", "y|a")
			Expect(t, db, "SELECT sku FROM items", "y")
			Expect(t, db, "SELECT id FROM orders", "1")
			n.drop(db)
		}
	}},
	{"ByKeysOfAnyKind", func(t *testing.T, db Database) {
		for _, ids := range [][2]string{{"", ""}, {"oid", ""}, {"", "iid"}, {"oid", "iid"}} {
			for _, set := range []mapping.Set{mapping.ReplaceSet, mapping.MergeSet} {
				m := generated(t, ids[0], ids[1])
				m.Tables[1].Set, m.Tables[2].Set = set, set
				n := BeginNested(t, db, aging(m), false)
				n.stock()
				if got := n.expire(0, 30); !reflect.DeepEqual(got, sink.Expired{Removed: 2, Below: []int64{3, 4}}) {
					t.Errorf("%v, %v: %+v", ids, set, got)
				}
				Expect(t, db, "SELECT id FROM orders", "3")
				Expect(t, db, "SELECT sku FROM items", "x")
				Expect(t, db, "SELECT code FROM taxes", "a")
				n.drop(db)
			}
		}
	}},
	{"OfTablesThatExist", func(t *testing.T, db Database) {
		for _, keys := range []string{"", ", FOREIGN KEY (order_id) REFERENCES orders (id)"} {
			theirs(t, db, "CREATE TABLE orders (id BIGINT PRIMARY KEY, status TEXT, at TIMESTAMP)")
			theirs(t, db, "CREATE TABLE items (qty BIGINT, sku TEXT, order_id BIGINT, PRIMARY KEY (sku, order_id)"+keys+")")
			theirs(t, db, "CREATE TABLE taxes (order_id BIGINT, sku TEXT, code TEXT, amount BIGINT, PRIMARY KEY (order_id, sku, code))")
			n := BeginNested(t, db, AgingShop(t), false)
			n.stock()
			if got := n.expire(0, 30); !reflect.DeepEqual(got, sink.Expired{Removed: 2, Below: []int64{3, 4}}) {
				t.Errorf("%+v", got)
			}
			shopIs(t, db, rows{"3|young"}, rows{"3|x|NULL"}, rows{"3|x|a|NULL"})
			n.drop(db)
		}
	}},
	{"AllStayIfOneHasToStay", func(t *testing.T, db Database) {
		n := BeginNested(t, db, AgingShop(t), false)
		n.stock()
		theirs(t, db, "CREATE TABLE bills (order_id BIGINT, sku TEXT, FOREIGN KEY (order_id, sku) REFERENCES items (order_id, sku))")
		db.Exec(t, "INSERT INTO bills VALUES (1, 'y')")
		got := n.expire(0, 30)
		if got.Removed != 1 || got.Kept != 1 || !reflect.DeepEqual(got.Below, []int64{1, 1}) {
			t.Errorf("%+v", got)
		}
		shopIs(t, db, rows{"1|old", "3|young"}, rows{"1|x|NULL", "1|y|NULL", "3|x|NULL"}, rows{"1|x|a|NULL", "1|x|b|NULL", "1|y|a|NULL", "3|x|a|NULL"})
		theirs(t, db, "DROP TABLE bills")
	}},
	{"OfTablesThatAreMissing", func(t *testing.T, db Database) {
		n := BeginNested(t, db, AgingShop(t), false)
		n.Flush(`{"id":1,"at":"2020-05-15T13:00:00Z"}`)
		theirs(t, db, "DROP TABLE IF EXISTS taxes")
		if got := n.expire(0, 30); !reflect.DeepEqual(got, sink.Expired{Removed: 1}) {
			t.Errorf("%+v", got)
		}
	}},
	{"VersionsGoWithTheChildren", func(t *testing.T, db Database) {
		for _, ids := range [][2]string{{"", ""}, {"oid", ""}, {"oid", "iid"}} {
			m := aging(generated(t, ids[0], ids[1]))
			versioned(m)
			n := BeginNested(t, db, m, false)
			for range 2 { // what another run has written counts
				n.Flush(`{"v":5,"id":1,"at":"2020-05-15T13:00:00Z","items":[{"sku":"x","qty":5,"taxes":[{"code":"a","amount":5}]}]}`,
					`{"v":5,"id":2,"at":"2020-05-15T14:00:00Z","items":[{"sku":"x","qty":5,"taxes":[{"code":"a","amount":5}]}]}`)
				n.End()
				n = BeginNested(t, db, m, false)
			}
			Expect(t, db, "SELECT count(*) FROM weir_versions", "6")
			if got := n.expire(0, 30); !reflect.DeepEqual(got, sink.Expired{Removed: 1, Below: []int64{1, 1}}) {
				t.Errorf("%v: %+v", ids, got)
			}
			Expect(t, db, "SELECT count(*) FROM weir_versions", "3")
			n.Flush(`{"v":1,"id":1,"items":[{"sku":"x","qty":1,"taxes":[{"code":"a","amount":1}]}]}`, `{"v":1,"id":2,"items":[{"sku":"x","qty":1,"taxes":[{"code":"a","amount":1}]}]}`)
			Expect(t, db, "SELECT qty FROM items ORDER BY qty", "1", "5")
			Expect(t, db, "SELECT amount FROM taxes ORDER BY amount", "1", "5")
			n.drop(db)
		}
	}},
	{"VersionsGoWhateverNamesTablesHave", func(t *testing.T, db Database) {
		for _, orders := range []string{"t", "s"} { // as SQL calls rows, too
			m := generated(t, "oid", "")
			m.Tables = m.Tables[:2]
			m.Tables[0].Name, m.Tables[1].Of = orders, orders
			versioned(aging(m))
			n := BeginNested(t, db, m, false)
			n.Flush(`{"v":5,"id":1,"at":"2020-05-15T14:00:00Z","items":[{"sku":"x","qty":5}]}`, `{"v":5,"id":2,"at":"2020-05-15T13:00:00Z","items":[{"sku":"x","qty":5}]}`)
			if got := n.expire(0, 30); !reflect.DeepEqual(got, sink.Expired{Removed: 1, Below: []int64{1}}) {
				t.Errorf("%s: %+v", orders, got)
			}
			n.Flush(`{"v":1,"id":1,"items":[{"sku":"x","qty":1}]}`, `{"v":1,"id":2,"items":[{"sku":"x","qty":2}]}`)
			Expect(t, db, "SELECT qty FROM items ORDER BY qty", "2", "5")
			n.drop(db)
		}
	}},
	{"VersionsOfTablesInTheMiddle", func(t *testing.T, db Database) {
		m := generated(t, "oid", "")
		m.Tables[0].Columns = columns("id: as text, status: as text")
		m.Tables[1].Columns = append(m.Tables[1].Columns, columns("at: as timestamp")...)
		versioned(m)
		n := BeginNested(t, db, m, false)
		n.Flush(`{"v":5,"id":"it's","items":[{"sku":"x","at":"2020-05-15T13:00:00Z","taxes":[{"code":"a"}]},{"sku":"y","qty":5,"at":"2020-05-15T14:00:00Z","taxes":[{"code":"a"}]}]}`, `{"v":5,"id":7}`)
		Expect(t, db, "SELECT count(*) FROM weir_versions", "6")
		if got := n.expire(1, 30); !reflect.DeepEqual(got, sink.Expired{Removed: 1, Below: []int64{1}}) {
			t.Errorf("%+v", got)
		}
		Expect(t, db, "SELECT count(*) FROM weir_versions", "4")
		n.Flush(`{"v":1,"id":"it's","items":[{"sku":"x","qty":1},{"sku":"y","qty":1}]}`)
		Expect(t, db, "SELECT sku, qty FROM items ORDER BY sku", "x|1", "y|5")
	}},
}))

// AgingShop is the shop with a time in each order.
func AgingShop(t *testing.T) *mapping.Mapping { return aging(Shop(t)) }

func aging(m *mapping.Mapping) *mapping.Mapping {
	m.Tables[0].Columns = append(m.Tables[0].Columns, columns("at: as timestamp")...)
	return m
}

// stock writes two old orders with three items and four taxes, and one that is young.
func (r *Run) stock() {
	r.t.Helper()
	r.At(at(0))
	r.Flush(`{"id":1,"status":"old","at":"2020-05-15T13:00:00Z","items":[{"sku":"x","taxes":[{"code":"a"},{"code":"b"}]},{"sku":"y","taxes":[{"code":"a"}]}]}`,
		`{"id":2,"items":[{"sku":"x","taxes":[{"code":"a"}]}]}`)
	r.At(at(40))
	r.Flush(`{"id":3,"status":"young","at":"2020-05-15T14:00:00Z","items":[{"sku":"x","taxes":[{"code":"a"}]}]}`)
}

// expire takes all steps of such an expiry.
func (r *Run) expire(table, minute int) sink.Expired {
	r.t.Helper()
	return r.Expire(r.Expiry(table, minute))
}
