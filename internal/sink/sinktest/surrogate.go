package sinktest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/schema"
)

// surrogateTests: keys that the database generates.
var surrogateTests = []test{
	{"ChildrenHaveTheGeneratedKey", func(t *testing.T, db Database) {
		n := BeginNested(t, db, generated(t, "oid", ""), false)
		n.Flush(`{"id":5,"status":"s","items":[{"sku":"x","taxes":[{"code":"a","amount":1}]},{"sku":"y"}]}`, `{"id":3,"items":[{"sku":"x","qty":7}]}`)
		Expect(t, db, "SELECT o.id, o.status, i.sku, i.qty FROM orders o JOIN items i ON i.oid = o.oid ORDER BY o.id, i.sku", "3|NULL|x|7", "5|s|x|NULL", "5|s|y|NULL")
		Expect(t, db, "SELECT o.id, t.sku, t.code, t.amount FROM orders o JOIN taxes t ON t.oid = o.oid", "5|x|a|1")
		n.End()
		n = BeginNested(t, db, generated(t, "oid", ""), false) // knows what the database has
		Counts(t, n.Flush(`{"id":5,"items":[{"sku":"x","taxes":[{"code":"a","amount":1}]},{"sku":"z"}]}`), 1, 0, 3, 1)
		Expect(t, db, "SELECT o.id, i.sku FROM orders o JOIN items i ON i.oid = o.oid ORDER BY o.id, i.sku", "3|x", "5|x", "5|z")
		n.Flush(`{"id":3,"op":"delete"}`, `{"id":5,"items":[{"sku":"x"}]}`)
		Expect(t, db, "SELECT o.id, i.sku FROM orders o JOIN items i ON i.oid = o.oid", "5|x")
		Expect(t, db, "SELECT count(*) FROM items", "1")
		Expect(t, db, "SELECT count(*) FROM taxes", "0")
	}},
	{"AnElementSetsColumnsThatOthersAdded", func(t *testing.T, db Database) {
		for _, ids := range [][2]string{{"", ""}, {"oid", ""}, {"oid", "iid"}} {
			m := generated(t, ids[0], ids[1])
			m.Tables[1].Rest, m.Tables[2].Rest = fold.AddColumns, fold.AddColumns
			n := BeginNested(t, db, m, false)
			n.Flush(`{"id":1,"items":[{"sku":"x","taxes":[{"code":"a"}]}]}`)
			other := BeginNestedJob(t, db, "another job", m, false)
			other.Flush(`{"id":1,"items":[{"sku":"x","new":"x","taxes":[{"code":"a","new":"x"}]},{"sku":"y","new":"y"}]}`)
			n.Flush(`{"id":1,"items":[{"sku":"x","taxes":[{"code":"a"}]},{"sku":"y","qty":1}]}`)
			Expect(t, db, "SELECT sku, qty, new FROM items ORDER BY sku", "x|NULL|NULL", "y|1|NULL")
			Expect(t, db, "SELECT code, new FROM taxes", "a|NULL")
			other.End()
			n.drop(db)
		}
	}},
	{"ARowIsFoundByAKeyThatWasWidened", func(t *testing.T, db Database) {
		n := BeginNested(t, db, untyped(generated(t, "oid", "iid")), false)
		n.Flush(`{"id":1,"items":[{"sku":1}]}`, `{"id":2}`)
		n.Flush(`{"id":"x"}`)
		n.Flush(`{"id":2,"items":[{"sku":1,"taxes":[{"code":"a"}]},{"sku":1.5}]}`)
		n.Flush(`{"id":1,"items":[{"sku":"y"},{"sku":1,"taxes":[{"code":"b"}]}]}`)
		Expect(t, db, "SELECT o.id, i.sku, t.code FROM orders o JOIN items i ON i.oid = o.oid JOIN taxes t ON t.iid = i.iid ORDER BY t.code", "2|1|a", "1|1|b")
		Expect(t, db, "SELECT count(*) FROM items", "4")
	}},
	{"AGeneratedKeyDoesNotChange", func(t *testing.T, db Database) {
		n := BeginNested(t, db, generated(t, "oid", "iid"), false)
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
		// A field of its name sets nothing.
		n.Flush(`{"id":2,"oid":77}`)
		Expect(t, db, "SELECT count(*) FROM orders WHERE oid = 77", "0")
	}},
	{"VersionsHoldForTheNextRun", func(t *testing.T, db Database) {
		m := generated(t, "oid", "iid")
		versioned(m)
		for _, lines := range []string{`{"v":5,"id":1,"items":[{"sku":"x","qty":5,"taxes":[{"code":"a","amount":5}]}]}`, `{"v":4,"id":1,"items":[{"sku":"x","qty":4,"taxes":[{"code":"a","amount":4}]}]}`} {
			n := BeginNested(t, db, m, false)
			n.Flush(lines)
			n.End()
		}
		Expect(t, db, "SELECT qty, amount FROM items JOIN taxes ON taxes.iid = items.iid", "5|5")
		Expect(t, db, "SELECT count(*) FROM weir_versions", "3")
	}},
	{"AKeyThatIsNotGeneratedIsAnError", func(t *testing.T, db Database) {
		for i, create := range []string{"CREATE TABLE orders (id integer PRIMARY KEY, status text)", "CREATE TABLE orders (id integer PRIMARY KEY, oid integer, status text)"} {
			if i > 0 {
				theirs(t, db, "DROP TABLE orders")
			}
			theirs(t, db, create)
			m := generated(t, "oid", "")
			n := Setup{Mapping: m}.open(t, db)
			var fault *mapping.Fault
			if err := n.read(); !errors.As(err, &fault) || !strings.Contains(fault.Text, `column "oid"`) {
				t.Errorf("%s: %v", create, err)
			}
			n.End()
		}
	}},
}

// generated is the shop with keys that the database generates.
func generated(t *testing.T, order, item string) *mapping.Mapping {
	m := Shop(t)
	m.Tables[0].ID, m.Tables[1].ID = order, item
	return m
}

// versioned has the rows of a shop be changes of their own that have the version of their message.
func versioned(m *mapping.Mapping) {
	for i := range m.Tables {
		if m.Tables[i].DeleteWhen, m.Tables[i].Version = nil, path("$.v"); i > 0 {
			m.Tables[i].Set = mapping.MergeSet
		}
	}
}

// rowKeySQL is what has a part of the key of a row of another table, which is named by an expression.
func rowKeySQL(l *schema.Lookup, named string, part int) string {
	first := 0
	if l.Above != nil {
		first = len(l.Above.Parts())
	}
	value := ""
	if part < first {
		value = rowKeySQL(l.Above, l.Table+"."+l.Key[0], part)
	} else if value = l.Table + "." + l.Key[part-first]; l.Above != nil {
		value = l.Table + "." + l.Key[part-first+1]
	}
	return fmt.Sprintf("(SELECT %s FROM %s WHERE %s.%s = %s)", value, l.Table, l.Table, l.Column, named)
}
