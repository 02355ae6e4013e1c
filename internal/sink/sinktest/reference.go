package sinktest

import (
	"fmt"
	"testing"

	"github.com/weirsync/weir/internal/mapping"
)

// referenceTests: columns with the keys of rows of other tables.
var referenceTests = []test{
	{"TheOtherKeyIsWidened", func(t *testing.T, db Database) {
		m := Referring(t, "wide", "")
		m.Tables[0].Columns = columns("nr: order as integer, customer_id: customer")
		m.Tables[0].Columns[1].From[0].References = m.Tables[1].Name
		m.Tables[1].Key, m.Tables[1].Columns = []string{"customer"}, nil
		n := BeginNested(t, db, m)
		n.Flush(`{"customer":7,"name":"seven","a":1,"b":2,"c":3,"d":4}`) // its fields become columns
		n.Flush(`{"order":1,"customer":"ten"}`)
		Expect(t, db, "SELECT customer, name FROM "+m.Tables[1].Name+" ORDER BY customer = 'ten'", "7|seven", "ten|NULL")
	}},
}

// Referring is a mapping of orders, which refer to customers. Only some messages have a customer's name.
func Referring(t *testing.T, suffix, id string) *mapping.Mapping {
	m := &mapping.Mapping{Tables: []mapping.Table{
		{Name: "orders_" + suffix, When: when("order"), Key: []string{"nr"}, Columns: columns("nr: order as integer, customer_id: customer as integer, total: as integer")},
		{Name: "customers_" + suffix, When: when("name"), Key: []string{"nr"}, ID: id, Columns: columns("nr: customer as integer, name: as text")},
	}}
	m.Tables[0].Columns[1].From[0].References = m.Tables[1].Name
	return m
}

// referred returns a query for the orders with the customers that they refer to.
func referred(m *mapping.Mapping, id string) string {
	if id == "" {
		id = "nr"
	}
	return fmt.Sprintf("SELECT o.nr, c.nr, c.name FROM %s o LEFT JOIN %s c ON c.%s = o.customer_id ORDER BY o.nr", m.Tables[0].Name, m.Tables[1].Name, id)
}
