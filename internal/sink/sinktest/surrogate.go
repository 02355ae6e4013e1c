package sinktest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/mapping"
)

// surrogateTests: keys that the database generates.
var surrogateTests = []test{
	{"AGeneratedKeyDoesNotChange", func(t *testing.T, db Database) {
		n := BeginNested(t, db, Generated(t, "oid", "iid"))
		n.Flush(`{"id":1,"status":"s"}`, `{"id":2,"status":"s","items":[{"sku":"x"}]}`)
		keys := "SELECT oid FROM orders WHERE id = 2 UNION ALL SELECT iid FROM items"
		before := fmt.Sprint(db.Query(t, keys))
		for _, lines := range []string{`{"id":2,"status":"t"}`, `{"id":2,"op":"delete"} {"id":2,"items":[{"sku":"x"}]}`, `{"id":2,"items":[{"sku":"x","qty":5}]}`} {
			n.Flush(strings.Split(lines, " ")...)
			if lines[9] == 'o' { // its children are other ones
				keys = "SELECT oid FROM orders WHERE id = 2"
				before = before[:strings.IndexByte(before, ']')+1] + "]"
			}
			if now := fmt.Sprint(db.Query(t, keys)); now != before {
				t.Errorf("the keys are %s, after %s they are %s", before, lines, now)
			}
		}
		Expect(t, db, "SELECT status FROM orders WHERE id = 2", "NULL")
		// A field with the column's name sets nothing.
		n.Flush(`{"id":2,"oid":77}`)
		Expect(t, db, "SELECT count(*) FROM orders WHERE oid = 77", "0")
	}},
	{"AKeyThatIsNotGeneratedIsAnError", func(t *testing.T, db Database) {
		for i, create := range []string{"CREATE TABLE orders (id integer PRIMARY KEY, status text)", "CREATE TABLE orders (id integer PRIMARY KEY, oid integer, status text)"} {
			if i > 0 {
				theirs(t, db, "DROP TABLE orders")
			}
			theirs(t, db, create)
			m := Generated(t, "oid", "")
			n := Setup{Mapping: m}.open(t, db)
			var fault *mapping.Fault
			if err := n.read(); !errors.As(err, &fault) || !strings.Contains(fault.Text, `column "oid"`) {
				t.Errorf("%s: %v", create, err)
			}
			n.End()
		}
	}},
}

// Generated is the shop with keys that the database generates.
func Generated(t *testing.T, order, item string) *mapping.Mapping {
	m := Shop(t)
	if m.Tables[1].ID = item; order != "" {
		generateOrders(m, order)
	}
	return m
}

// generateOrders gives the shop's orders a key that the database generates.
func generateOrders(m *mapping.Mapping, id string) {
	m.Tables[0].ID, m.Tables[1].Parent = id, nil
}

// versioned makes the rows of a shop separate changes with the version of their message.
func versioned(m *mapping.Mapping) {
	for i := range m.Tables {
		if m.Tables[i].DeleteWhen, m.Tables[i].Version = nil, path("$.v"); i > 0 {
			m.Tables[i].Set = mapping.MergeSet
		}
	}
}
