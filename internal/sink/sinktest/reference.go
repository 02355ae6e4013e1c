package sinktest

import (
	"fmt"
	"testing"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/mapping"
)

// referenceTests: columns with the keys of rows of other tables.
var referenceTests = []test{
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
