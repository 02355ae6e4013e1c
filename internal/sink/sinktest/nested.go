package sinktest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/mapping"
)

// Shop is a mapping of orders with items and their taxes.
func Shop(t *testing.T) *mapping.Mapping {
	t.Helper()
	return &mapping.Mapping{Tables: []mapping.Table{
		{Name: "orders", Key: []string{"id"}, DeleteWhen: when("op=delete"), Columns: columns("id: as integer, status: as text")},
		{Name: "items", Nest: mapping.Nest{Of: "orders", Each: path("items"), Parent: map[string]string{"id": "order_id"}}, Key: []string{"sku"}, Columns: columns("sku: as text, qty: as integer")},
		{Name: "taxes", Nest: mapping.Nest{Of: "items", Each: path("taxes")}, Key: []string{"code"}, Columns: columns("code: as text, amount: as integer")},
	}}
}

// Baskets maps messages to baskets with sets, which are arrays with the same names, in the given order.
func Baskets(t *testing.T, sets ...string) *mapping.Mapping {
	t.Helper()
	m := &mapping.Mapping{Tables: []mapping.Table{{Name: "baskets", Key: []string{"id"}, Columns: columns("id: as integer")}}}
	for _, name := range sets {
		m.Tables = append(m.Tables, mapping.Table{Name: name, Nest: mapping.Nest{Of: "baskets", Each: path(name), Parent: map[string]string{"id": "basket"}}, Key: []string{"sku"}, Columns: columns("sku: as text")})
	}
	return m
}

// MergedShop is the shop with items and taxes that are updates.
func MergedShop(t *testing.T) *mapping.Mapping {
	t.Helper()
	m := Shop(t)
	m.Tables[1].Set, m.Tables[2].Set = mapping.MergeSet, mapping.MergeSet
	m.Tables[1].DeleteWhen = when("gone=true")
	return m
}

// inVersions gives a shop's messages versions, which are stored in its rows. Above rows that are updates nothing is
// deleted then.
func inVersions(m *mapping.Mapping, scope fold.Scope) {
	m.Tables[0].Version, m.Tables[0].Scope = path("$.v"), scope
	for i := range m.Tables {
		m.Tables[i].Columns = append(m.Tables[i].Columns, columns("v: $.v as integer")...)
		if i > 0 && m.Tables[i].Set == mapping.MergeSet {
			m.Tables[i-1].DeleteWhen = nil
		}
	}
}

// shopIs compares the rows of the shop's tables.
func shopIs(t *testing.T, db Database, orders, items, taxes []string) {
	t.Helper()
	Expect(t, db, "SELECT id, status FROM orders ORDER BY id", orders...)
	Expect(t, db, "SELECT order_id, sku, qty FROM items ORDER BY order_id, sku", items...)
	Expect(t, db, "SELECT order_id, sku, code, amount FROM taxes ORDER BY order_id, sku, code", taxes...)
}

// nestedTests: rows that belong to rows of other tables.
var nestedTests = []test{
	{"ARejectedMessageTakesNoMemory", func(t *testing.T, db Database) {
		theirs(t, db, "CREATE TABLE notes (id bigint PRIMARY KEY, n bigint)")
		m := Shop(t)
		m.Tables = append(m.Tables, mapping.Table{Name: "notes", Key: []string{"id"}, Columns: columns("id, n: note")})
		n := BeginNested(t, db, m)
		n.Fold(`{"id":1,"note":1,"items":[{"sku":"x"}]}`)
		before := n.set.Bytes()
		if _, err := n.fold([]byte(`{"id":2,"note":"none","items":[{"sku":"x"},{"sku":"y"},{"sku":"z"}]}`), fold.Place{Line: 2}); err == nil {
			t.Error("the message is taken")
		}
		if after := n.set.Bytes(); after != before {
			t.Errorf("the set takes %d bytes, before the rejected message %d", after, before)
		}
	}},
	{"MemoryOfABatchCountsTheRowsOfItsSets", func(t *testing.T, db Database) {
		n := BeginNested(t, db, Shop(t))
		n.Fold(`{"id":1,"items":[` + strings.Repeat(`{"sku":"x"},`, 999) + `{"sku":"y"}]}`)
		var items strings.Builder
		for i := range 5000 {
			fmt.Fprintf(&items, `,{"sku":"%d","taxes":[{"code":"a"}]}`, i)
		}
		n.Fold(`{"id":2,"items":[` + items.String()[1:] + `]}`)
		room := n.set.Bytes()
		if _, err := n.Sink.Flush(t.Context(), n.Seal()); err != nil {
			t.Fatal(err)
		}
		took := n.set.Batches[0].Bytes()
		for _, b := range n.set.Batches[1:] {
			took += b.Exploded().Bytes()
		}
		if took > room || room > 4*took {
			t.Errorf("the batch of %d bytes took %d", room, took)
		}
		if n.set.Reset(); n.set.Bytes() >= room {
			t.Errorf("an empty batch has %d bytes", n.set.Bytes())
		}
	}},
}
