package sinktest

import (
	"fmt"
	"testing"

	"github.com/weirsync/weir/internal/mapping"
)

// referenceTests: columns with the keys of rows of other tables.
var referenceTests = []test{
	{"ARowThatIsMissingIsMade", func(t *testing.T, db Database) {
		for _, id := range []string{"", "cid"} {
			m := referring(t, "stub"+id, id, mapping.StubMissing)
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
	{"ARowThatIsMissingIsNull", func(t *testing.T, db Database) {
		for _, id := range []string{"", "cid"} {
			m := referring(t, "null"+id, id, mapping.NullMissing)
			n := BeginNested(t, db, m, false)
			n.Flush(`{"order":2,"customer":8,"name":"eight"}`)
			n.Flush(`{"order":1,"customer":7}`, `{"order":2,"customer":9}`, `{"order":3,"customer":8}`)
			Expect(t, db, referred(m, id), "1|NULL|NULL", "2|NULL|NULL", "3|8|eight")
			n.End()
		}
	}},
	{"ARowThatIsMissingRejectsTheMessage", func(t *testing.T, db Database) {
		for i, id := range []string{"", "cid"} {
			m := referring(t, "reject"+id, id, mapping.RejectMissing)
			n := BeginNested(t, db, m, true)
			n.Flush(`{"order":2,"customer":8,"name":"eight"}`)
			n.Flush(`{"order":1,"customer":7}`, `{"order":2,"customer":9}`, `{"order":3,"customer":8}`)
			Expect(t, db, referred(m, id), "2|8|eight", "3|8|eight")
			Expect(t, db, "SELECT line FROM weir_rejects ORDER BY id", []string{"2", "3", "6", "7"}[:2+2*i]...)
			n.End()
		}
	}},
	{"VersionsOfTheOtherRowStay", func(t *testing.T, db Database) {
		m := referring(t, "versions", "", mapping.StubMissing)
		for i := range m.Tables {
			m.Tables[i].Version = pathOf(t, "v")
		}
		n := BeginNested(t, db, m, false)
		n.Flush(`{"order":1,"customer":7,"v":9}`)
		n.Flush(`{"customer":7,"name":"seven","v":3}`)
		Expect(t, db, referred(m, ""), "1|7|seven")
	}},
	{"TheOtherKeyIsWidenedForIt", func(t *testing.T, db Database) {
		m := referring(t, "wide", "", mapping.StubMissing)
		m.Tables[0].Columns = columnsOf(t, "nr: order as integer, customer_id: customer")
		m.Tables[0].Columns[1].From[0].References, m.Tables[0].Columns[1].From[0].Missing = m.Tables[1].Name, mapping.StubMissing
		m.Tables[1].Key, m.Tables[1].Columns = []string{"customer"}, nil
		n := BeginNested(t, db, m, false)
		n.Flush(`{"customer":7,"name":"seven","a":1,"b":2,"c":3,"d":4}`) // its fields become columns
		n.Flush(`{"order":1,"customer":"ten"}`)
		Expect(t, db, "SELECT customer, name FROM "+m.Tables[1].Name+" ORDER BY customer = 'ten'", "7|seven", "ten|NULL")
	}},
}

// referring is a mapping of orders, which name customers. Those have names only in messages that say
// it.
func referring(t *testing.T, suffix, id string, missing mapping.Missing) *mapping.Mapping {
	has := func(name string) mapping.When {
		return mapping.When{{{Path: pathOf(t, name), Present: mapping.MustBePresent}}}
	}
	m := &mapping.Mapping{Tables: []mapping.Table{
		{Name: "orders_" + suffix, When: has("order"), Key: []string{"nr"}, Columns: columnsOf(t, "nr: order as integer, customer_id: customer as integer, total: as integer")},
		{Name: "customers_" + suffix, When: has("name"), Key: []string{"nr"}, ID: id, Columns: columnsOf(t, "nr: customer as integer, name: as text")},
	}}
	from := &m.Tables[0].Columns[1].From[0]
	from.References, from.Missing = m.Tables[1].Name, missing
	return m
}

// referred is a query for the orders with the customers that they name.
func referred(m *mapping.Mapping, id string) string {
	if id == "" {
		id = "nr"
	}
	return fmt.Sprintf("SELECT o.nr, c.nr, c.name FROM %s o LEFT JOIN %s c ON c.%s = o.customer_id ORDER BY o.nr", m.Tables[0].Name, m.Tables[1].Name, id)
}
