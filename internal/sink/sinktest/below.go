package sinktest

import (
	"reflect"
	"testing"

	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/sink"
)

// belowTests: rows that belong to old rows go with these.
var belowTests = needing(Nestable, []test{
	{"VersionsGoWhateverNamesTablesHave", func(t *testing.T, db Database) {
		for _, orders := range []string{"t", "s"} { // as SQL calls rows, too
			m := generated(t, "oid", "")
			m.Tables = m.Tables[:2]
			m.Tables[0].Name, m.Tables[1].Of = orders, orders
			versioned(aging(m, 0))
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
		versioned(aging(m, 1))
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
})

// AgingShop is the shop with a time in each order.
func AgingShop(t *testing.T) *mapping.Mapping { return aging(Shop(t), 0) }

// aging has a table of a mapping have a time in each row.
func aging(m *mapping.Mapping, table int) *mapping.Mapping {
	m.Tables[table].Columns = append(m.Tables[table].Columns, columns("at: as timestamp")...)
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
