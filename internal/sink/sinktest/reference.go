package sinktest

import (
	"fmt"
	"testing"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/mapping"
)

// referenceTests: columns with the keys of rows of other tables.
var referenceTests = []test{
	{"AMissingRowIsInserted", func(t *testing.T, db Database) {
		for _, id := range []string{"", "cid"} {
			m := Referring(t, "stub"+id, id)
			n := BeginNested(t, db, m, false)
			Counts(t, n.Flush(`{"order":1,"customer":7}`, `{"order":2,"customer":8,"name":"eight"}`, `{"order":3}`, `{"order":4,"customer":null}`), 6, 0, 0, 0)
			is := func(want ...string) { t.Helper(); Expect(t, db, referred(m, id), want...) }
			is("1|7|NULL", "2|8|eight", "3|NULL|NULL", "4|NULL|NULL")
			n.End()
			n = BeginNested(t, db, m, false) // knows what the database has
			n.Flush(`{"order":1,"customer":8}`, `{"order":2,"total":5}`, `{"order":3,"customer":7}`)
			n.Flush(`{"customer":7,"name":"seven"}`, `{"order":4,"customer":9}`, `{"order":3,"customer":null}`)
			is("1|8|eight", "2|8|eight", "3|NULL|NULL", "4|9|NULL")
			n.End()
		}
	}},
	{"ARowThatOthersReferToIsNotDeleted", func(t *testing.T, db Database) {
		for i, id := range []string{"", "cid"} {
			for _, most := range []int{1, 2, 3, 100} {
				m := Referring(t, fmt.Sprintf("kept%d%d", i, most), id)
				m.Tables[0].DeleteWhen, m.Tables[1].DeleteWhen = when("off"), when("gone")
				n := BeginNested(t, db, m, false)
				n.Feed(most, `{"customer":1,"name":"one"}`, `{"order":1,"customer":1}`, `{"customer":1,"name":0,"gone":1}`, `{"order":2,"customer":1}`,
					`{"order":3,"customer":2}`, `{"customer":2,"name":0,"gone":1}`, `{"customer":2,"name":"two"}`, // it was made for the order
					`{"customer":3,"name":"three"}`, `{"order":4,"customer":3}`, `{"order":4,"customer":1}`, `{"customer":3,"name":0,"gone":1}`, // nothing names it any more
					`{"order":5,"customer":4}`, `{"customer":4,"name":0,"gone":1}`, `{"order":5,"off":1}`, `{"customer":4,"name":0,"gone":1}`, `{"order":6,"customer":4}`,
					`{"customer":5,"name":0,"gone":1}`, `{"customer":5,"name":"five"}`)
				Expect(t, db, referred(m, id), "1|1|one", "2|1|one", "3|2|two", "4|1|one", "6|4|NULL")
				Expect(t, db, "SELECT nr FROM "+m.Tables[1].Name+" ORDER BY nr", "1", "2", "4", "5")
				Expect(t, db, "SELECT line FROM weir_rejects ORDER BY line", "3", "6", "13")
				db.Exec(t, "DELETE FROM weir_rejects")
				db.Exec(t, "DELETE FROM weir_checkpoints")
				n.End()
			}
		}
	}},
	{"ADeletedRowIsInsertedAgain", func(t *testing.T, db Database) {
		for i, scope := range []fold.Scope{fold.ColumnScope, fold.RowScope} {
			for _, most := range []int{1, 100} {
				m := Referring(t, fmt.Sprintf("again%d%d", i, most), "")
				for k := range m.Tables {
					m.Tables[k].Version, m.Tables[k].Scope = path("v"), scope
					m.Tables[k].Columns = append(m.Tables[k].Columns, columns("v: v as integer")...)
				}
				m.Tables[1].DeleteWhen = when("gone")
				n := BeginNested(t, db, m, false)
				n.Feed(most, `{"customer":7,"name":"seven","v":3}`, `{"customer":7,"name":0,"gone":1,"v":5}`, `{"order":1,"customer":7,"v":9}`)
				Expect(t, db, referred(m, ""), "1|7|NULL")
				n.Feed(most, `{"customer":7,"name":"late","v":4}`, `{"order":1,"customer":8,"v":2}`)
				late := map[fold.Scope]string{fold.ColumnScope: "NULL", fold.RowScope: "late"}[scope] // which remembers no delete
				Expect(t, db, referred(m, ""), "1|7|"+late)
				n.Feed(most, `{"customer":7,"name":"new","v":6}`)
				Expect(t, db, referred(m, ""), "1|7|new")
				Expect(t, db, "SELECT nr, name, v FROM "+m.Tables[1].Name+" ORDER BY nr", "7|new|6", "8|NULL|NULL")
				db.Exec(t, "DELETE FROM weir_checkpoints")
				n.End()
			}
		}
	}},
	{"ARejectedMessageInsertsNoRow", func(t *testing.T, db Database) {
		m := Referring(t, "theirs", "")
		theirs(t, db, "CREATE TABLE customers_theirs (nr INTEGER PRIMARY KEY, name TEXT NOT NULL)")
		theirs(t, db, "CREATE TABLE orders_theirs (nr INTEGER PRIMARY KEY, customer_id INTEGER, total INTEGER CHECK (total > 0))")
		for _, most := range []int{1, 100} {
			n := BeginNested(t, db, m, false)
			n.Feed(most, `{"customer":7,"name":"seven"}`, `{"order":1,"customer":7}`, `{"order":2,"customer":8,"total":1}`, `{"order":3,"customer":7,"total":-1}`, `{"order":4,"customer":9,"name":"nine","total":-1}`)
			Expect(t, db, referred(m, ""), "1|7|seven")
			Expect(t, db, "SELECT nr FROM customers_theirs", "7")
			Expect(t, db, "SELECT line FROM weir_rejects ORDER BY line", "3", "4", "5")
			for _, table := range []string{"weir_rejects", "weir_checkpoints", "orders_theirs", "customers_theirs"} {
				db.Exec(t, "DELETE FROM "+table)
			}
			n.End()
		}
	}},
	{"VersionsOfTheOtherRowAreUnchanged", func(t *testing.T, db Database) {
		m := Referring(t, "versions", "")
		for i := range m.Tables {
			m.Tables[i].Version = path("v")
		}
		n := BeginNested(t, db, m, false)
		n.Flush(`{"order":1,"customer":7,"v":9}`)
		n.Flush(`{"customer":7,"name":"seven","v":3}`)
		Expect(t, db, referred(m, ""), "1|7|seven")
	}},
	{"TheOtherKeyIsWidened", func(t *testing.T, db Database) {
		m := Referring(t, "wide", "")
		m.Tables[0].Columns = columns("nr: order as integer, customer_id: customer")
		m.Tables[0].Columns[1].From[0].References = m.Tables[1].Name
		m.Tables[1].Key, m.Tables[1].Columns = []string{"customer"}, nil
		n := BeginNested(t, db, m, false)
		n.Flush(`{"customer":7,"name":"seven","a":1,"b":2,"c":3,"d":4}`) // its fields become columns
		n.Flush(`{"order":1,"customer":"ten"}`)
		Expect(t, db, "SELECT customer, name FROM "+m.Tables[1].Name+" ORDER BY customer = 'ten'", "7|seven", "ten|NULL")
	}},
	{"ARowIsFoundByAKeyThatWasWidened", func(t *testing.T, db Database) {
		for _, id := range []string{"", "cid"} {
			m := Referring(t, "found"+id, id)
			for i := range m.Tables {
				for j := range m.Tables[i].Columns {
					m.Tables[i].Columns[j].From[0].As = mapping.Type{}
				}
			}
			n := BeginNested(t, db, m, false)
			n.Flush(`{"customer":1,"name":"one"}`, `{"customer":1.5,"name":"more"}`)
			n.Flush(`{"order":1,"customer":1}`, `{"order":2,"customer":1.5}`)
			n.Flush(`{"customer":"x","name":"ex"}`)
			n.Flush(`{"order":3,"customer":1}`, `{"order":4,"customer":"1.5"}`)
			n.Flush(`{"order":5,"customer":"x"}`)
			if id != "" { // else a column whose type comes from values has what messages have
				Expect(t, db, referred(m, id), "1|1|one", "2|1.5|more", "3|1|one", "4|1.5|more", "5|x|ex")
			}
			Expect(t, db, "SELECT count(customer_id) FROM "+m.Tables[0].Name, "5")
			Expect(t, db, "SELECT count(*) FROM "+m.Tables[1].Name, "3")
			Expect(t, db, "SELECT count(*) FROM weir_rejects", "0")
			n.End()
		}
	}},
}

// Referring is a mapping of orders, which name customers. Those have names only in messages that say
// it.
func Referring(t *testing.T, suffix, id string) *mapping.Mapping {
	m := &mapping.Mapping{Tables: []mapping.Table{
		{Name: "orders_" + suffix, When: when("order"), Key: []string{"nr"}, Columns: columns("nr: order as integer, customer_id: customer as integer, total: as integer")},
		{Name: "customers_" + suffix, When: when("name"), Key: []string{"nr"}, ID: id, Columns: columns("nr: customer as integer, name: as text")},
	}}
	m.Tables[0].Columns[1].From[0].References = m.Tables[1].Name
	return m
}

// referred is a query for the orders with the customers that they name.
func referred(m *mapping.Mapping, id string) string {
	if id == "" {
		id = "nr"
	}
	return fmt.Sprintf("SELECT o.nr, c.nr, c.name FROM %s o LEFT JOIN %s c ON c.%s = o.customer_id ORDER BY o.nr", m.Tables[0].Name, m.Tables[1].Name, id)
}
