package mapping_test

import (
	"testing"

	"github.com/weirsync/weir/internal/fold"
	. "github.com/weirsync/weir/internal/mapping"
)

// one is a mapping to one table, with the key id.
func one(columnList string, with ...func(*Table)) Mapping {
	t := Table{Name: "t", Key: []string{"id"}}
	if columnList != "" {
		t.Columns = columns(columnList)
	}
	for _, f := range with {
		f(&t)
	}
	return Mapping{Tables: []Table{t}}
}

// TestMap_Routing: a message goes to every table whose condition holds. One that none takes is
// counted by the value that the conditions ask for.
func TestMap_Routing(t *testing.T) {
	m := Mapping{Ignore: when("type=keepalive"), Tables: []Table{
		{Name: "flights", When: when("type=departure|arrival"), Key: []string{"id"}},
		{Name: "arrivals", When: when("type=arrival"), Key: []string{"id"}, Columns: columns("id")},
	}}
	want(t, mapped(t, m, `{"type":"departure","id":1}`, `{"type":"arrival","id":2}`, `{"type":"keepalive"}`, `{"type":"x\ny"}`, `{"id":1}`, `{"\u0074ype":"arriv\u0061l","id":3}`), `
		flights type="departure" id=1
		flights type="arrival" id=2
		arrivals id=2
		ignored
		no table takes type=x
		y
		no table takes type=
		flights type="arriv\u0061l" id=3
		arrivals id=3`)
	m.Unmatched = RejectUnmatched
	want(t, mapped(t, m, `{"type":"x"}`), `error: no table takes this message, in which type is "x" (unmatched: reject)`)
	m.Unmatched = FailUnmatched
	want(t, mapped(t, m, `{"type":"x"}`), `error: no table takes this message, in which type is "x" (unmatched: fail)`)
}

// TestMap_Conditions: values compare as text; null is JSON's; an absent field matches only not
// and absence.
func TestMap_Conditions(t *testing.T) {
	f := func(w When, message, wanted string) {
		t.Helper()
		m := one("id", func(t *Table) { t.When = w })
		if got := mapped(t, m, message); (got == "t id=1") != (wanted == "holds") {
			t.Errorf("%+v and %s: %s", w, message, got)
		}
	}
	f(when("a=7"), `{"id":1,"a":7}`, "holds")
	f(when("a=7"), `{"id":1,"a":"7"}`, "holds")
	f(when("a=7"), `{"id":1,"a":7.0}`, "fails")
	f(when("a=7"), `{"id":1,"a":8,"a":7}`, "holds")
	f(when("a=7"), `{"id":1}`, "fails")
	f(when("a!=7"), `{"id":1}`, "holds")
	f(when("a!=7"), `{"id":1,"a":null}`, "holds")
	f(when("a!=7|8"), `{"id":1,"a":8}`, "fails")
	f(when("a=null"), `{"id":1,"a":null}`, "holds")
	f(when("a=null"), `{"id":1,"a":"null"}`, "fails")
	f(when("a"), `{"id":1,"a":null}`, "holds")
	f(when("a"), `{"id":1}`, "fails")
	f(when("!a"), `{"id":1}`, "holds")
	f(when("a", "a!=null"), `{"id":1,"a":null}`, "fails")
	f(when("a", "a!=null"), `{"id":1,"a":0}`, "holds")
	f(when("a.b=1", "c=2"), `{"id":1,"a":{"b":1},"c":2}`, "holds")
	f(append(when("a=1"), when("b=1")...), `{"id":1,"b":1}`, "holds")
}

// TestMap_AbsentAndNull: absent leaves a column alone, null is a value; of several sources the
// first that is present counts, null included.
func TestMap_AbsentAndNull(t *testing.T) {
	m := one(`id, speed: filed as integer; gs as integer, alt: alt if type=a; other, kind: ="webshop", late: =true if type=b`)
	want(t, mapped(t, m, `{"id":1}`, `{"id":1,"filed":null,"gs":7}`, `{"id":1,"gs":"7"}`, `{"id":1,"alt":3,"other":4}`, `{"id":1,"type":"a","alt":3,"other":4}`, `{"type":"b","id":1}`), `
		t id=1 kind="webshop"
		t id=1 speed=null kind="webshop"
		t id=1 speed=7 kind="webshop"
		t id=1 alt=4 kind="webshop"
		t id=1 alt=3 kind="webshop"
		t id=1 kind="webshop" late=true`)
}

// TestMap_Paths: where a is absent a.b is absent, where it is null a.b is null, and where it is no
// object absent.
func TestMap_Paths(t *testing.T) {
	m := one(`id, b: a.b, c: a.c.d, second: list[1], whole: $ as json, first: list[0].x`)
	want(t, mapped(t, m, " {\"id\":1}\r", `{"id":1,"a":null}`, `{"id":1,"a":{"c":{"d":[1]},"b":2}}`, `{"id":1,"a":7,"list":{}}`, `{"id":1,"a":{"c":5,"b":3,"b":4},"list":[{"x":1},2]}`, `{"id":1,"a":[1]}`, `{"id":1,"a":{"\u0062":{"x":1}}}`), `
		t id=1 whole={"id":1}
		t id=1 b=null c=null whole={"id":1,"a":null}
		t id=1 b=2 c=[1] whole={"id":1,"a":{"c":{"d":[1]},"b":2}}
		t id=1 whole={"id":1,"a":7,"list":{}}
		t id=1 b=4 second=2 whole={"id":1,"a":{"c":5,"b":3,"b":4},"list":[{"x":1},2]} first=1
		t id=1 whole={"id":1,"a":[1]}
		t id=1 b={"x":1} whole={"id":1,"a":{"\u0062":{"x":1}}}`)
}

// TestMap_At: where the object is absent or null there is no row; present without its key it
// rejects the message.
func TestMap_At(t *testing.T) {
	at := func(t *Table) { t.At = path("customer"); t.When = when("ok=1") }
	m := one(`id, city: address.city, order: $.number`, at)
	want(t, mapped(t, m, `{"ok":1}`, `{"ok":1,"customer":null}`, `{"ok":1,"customer":{"address":{"city":"Oslo"},"id":7},"number":5,"id":9}`, `{"ok":1,"customer":{}}`, `{"ok":1,"customer":[]}`), `
		no row
		no row
		t id=7 city="Oslo" order=5
		error: table "t": the key column "id" has no value in this message
		error: table "t": customer is no object but []`)
	want(t, mapped(t, one("", at), `{"ok":1,"customer":{"id":7,"b\u0061r":{"x":1}},"id":9}`), `t id=7 bar={"x":1}`)
}

// TestMap_DeletesNeedAt: a delete without the object that has its key is rejected where the mapping
// says so; other messages without it make no row.
func TestMap_DeletesNeedAt(t *testing.T) {
	m := one("", func(t *Table) { t.At, t.DeleteWhen, t.DeletesNeedAt = path("a.row"), when("op=d"), true })
	want(t, mapped(t, m, `{"op":"d","a":{"row":null}}`, `{"op":"d","id":1}`, `{"op":"u","a":{"row":null}}`, `{"id":1}`, `{"op":"d","a":{"row":{"id":7}}}`), `
		error: table "t": a.row is null in a message that deletes its row, so the key is unknown; --envelope knows where change streams have it, and a config file can name another place, as in id: [a.row.id, before.id]
		error: table "t": a.row is absent in a message that deletes its row, so the key is unknown; --envelope knows where change streams have it, and a config file can name another place, as in id: [a.row.id, before.id]
		no row
		no row
		delete t id=7`)
	m.Tables[0].DeletesNeedAt = false
	want(t, mapped(t, m, `{"op":"d","a":{"row":null}}`), `no row`)
}

// TestMap_OneOfSeveralKeys: a message with the key of one table and without that of another is
// rejected, unless the condition says otherwise.
func TestMap_OneOfSeveralKeys(t *testing.T) {
	m := Mapping{Tables: []Table{{Name: "a", Key: []string{"x"}, Columns: columns("x")}, {Name: "b", Key: []string{"y"}, Columns: columns("y")}}}
	lines := []string{`{"x":1,"y":2}`, `{"x":1}`, `{"y":null,"x":1}`, `{"x":1,"y":""}`}
	want(t, mapped(t, m, lines...), `
		a x=1
		b y=2
		error: table "b": the key column "y" has no value in this message
		error: table "b": the key column "y" is null
		error: table "b": the key column "y" is empty`)
	m.Tables[1].When = when("y")
	want(t, mapped(t, m, lines[1]), `a x=1`)
}

// TestMap_Rest: fields that no column takes are passed over, added or rejected. Those that a
// column or condition uses are not among them. One with the name of a column that has another source cannot be added.
func TestMap_Rest(t *testing.T) {
	rest := func(r fold.NewColumns) func(*Table) {
		return func(t *Table) { t.Rest, t.When = r, when("type=a") }
	}
	line := `{"type":"a","id":1,"orig":"OSL","origin":"?","x":{"y":1},"z":2}`
	want(t, mapped(t, one("id, origin: orig", rest("")), line), `t id=1 origin="OSL"`)
	want(t, mapped(t, one("id, origin: orig", rest(fold.AddColumns)), line), `t id=1 origin="OSL" x={"y":1} z=2`)
	want(t, mapped(t, one("id, origin: orig, from: origin, y: x.y", rest(fold.RejectColumns)), line), `error: table "t": no column takes the field "z" (rest: reject)`)
	want(t, mapped(t, one("id, origin: orig", rest(fold.RejectColumns)), line), `error: table "t": no column takes the field "origin" (rest: reject)`)
}

// TestMap_Deletes: of a message that deletes only the key and the version count.
func TestMap_Deletes(t *testing.T) {
	m := one("id, n: as integer", func(t *Table) { t.DeleteWhen, t.Version = when("op=delete"), path("meta.v") })
	want(t, mapped(t, m, `{"op":"delete","id":1,"n":"x","meta":{"v":5}}`, `{"id":1,"n":"x"}`, `{"id":1,"n":3,"meta":{"v":"2020"}}`), `
		delete t id=1 version 5
		error: table "t", column "n": n is "x": it is not an integer
		t id=1 n=3 version "2020"`)
}

// TestMap_Meta: what is known of a line beside its message.
func TestMap_Meta(t *testing.T) {
	want(t, mapped(t, one("id, line: meta line, offset: meta offset, source: meta source"), `{"id":1}`, `{"id":2}`), `
		t id=1 line=1 offset=0 source="feed.jsonl"
		t id=2 line=2 offset=100 source="feed.jsonl"`)
}

func orders(set Set) Mapping {
	return Mapping{Tables: []Table{
		{Name: "items", Of: "orders", Each: path("items"), Set: set, Key: []string{"sku"}, Columns: columns("sku, line: meta index, qty: as integer, number: ^.number, note: gift.note")},
		{Name: "orders", Key: []string{"id"}, Columns: columns("id, status"), DeleteWhen: when("status=deleted")},
		{Name: "taxes", Of: "items", Each: path("taxes"), Set: set, Key: []string{"code"}, Columns: columns("code, amount: as numeric, qty: ^.qty")},
	}}
}

// TestMap_SetOfRows: an array is one value of its parent's row: absent it says nothing, null or
// empty there are no rows, else exactly its elements, each of them whole.
func TestMap_SetOfRows(t *testing.T) {
	want(t, mapped(t, orders(ReplaceSet), `{"id":1}`, `{"id":1,"items":null}`, `{"id":1,"items":[],"status":"x"}`,
		`{"id":1,"number":"A1","items":[{"sku":"x","qty":"2","taxes":[{"code":"v","amount":1.5},{"code":"w"}]},{"sku":"y","gift":{"note":"hi"}}]}`,
		`{"id":1,"items":{}}`, `{"id":1,"items":7}`, `{"id":1,"items":[{"sku":"x"},{"qty":1}]}`, `{"id":1,"items":[{"sku":"x","taxes":[{"code":1,"amount":"x"}]}]}`,
		`{"id":1,"status":"deleted","items":[{}]}`), `
		orders id=1
		orders id=1
		  items are:
		orders id=1 status="x"
		  items are:
		orders id=1
		  items are:
		  items id=1 sku="x" line=0 qty=2 number="A1" note=null
		  taxes id=1 sku="x" code="v" amount=1.5 qty="2"
		  taxes id=1 sku="x" code="w" amount=null qty="2"
		  items id=1 sku="y" line=1 qty=null number="A1" note="hi"
		error: table "items": items is no array but an object: a column with meta: key takes the names of its members
		error: table "items": items is no array but 7
		error: table "items": the key column "sku" has no value in this message (element 1 of items)
		error: table "taxes", column "amount": amount is "x": it is not a number (element 0 of taxes) (element 0 of items)
		delete orders id=1`)
}

// TestMap_SparseElements: with set: merge elements are updates of their own.
func TestMap_SparseElements(t *testing.T) {
	m := orders(MergeSet)
	m.Tables[0].DeleteWhen, m.Tables[0].Version = when("qty=0"), path("$.v")
	want(t, mapped(t, m, `{"id":1,"items":null}`, `{"id":1,"items":[]}`,
		`{"id":1,"v":9,"number":"A1","items":[{"sku":"x","qty":"2","taxes":[{"code":"v","amount":1.5},{"code":"w"}]},{"sku":"y","qty":0,"taxes":[{}]}]}`), `
		orders id=1
		orders id=1
		orders id=1
		items id=1 sku="x" line=0 qty=2 number="A1" version 9
		taxes id=1 sku="x" code="v" amount=1.5 qty="2" version 9
		taxes id=1 sku="x" code="w" qty="2" version 9
		delete items id=1 sku="y" version 9`)
}

// TestMap_ArraysOfOthers: arrays of scalars, the members of an object, renamed keys of parents,
// elements that belong to no row, and fields by their names.
func TestMap_ArraysOfOthers(t *testing.T) {
	child := func(of string, each, key, columnList string, with ...func(*Table)) Mapping {
		c := Table{Name: "c", Of: of, Each: path(each), Key: []string{key}}
		if columnList != "" {
			c.Columns = columns(columnList)
		}
		for _, f := range with {
			f(&c)
		}
		return Mapping{Tables: []Table{{Name: "p", Key: []string{"id"}, Columns: columns("id")}, c}}
	}
	want(t, mapped(t, child("p", "tags", "tag", "tag: ."), `{"id":1,"tags":["a","b","a"]}`), `
		p id=1
		  c are:
		  c id=1 tag="a"
		  c id=1 tag="b"
		  c id=1 tag="a"`)
	want(t, mapped(t, child("p", "prices", "currency", "currency: meta key, amount: ., n: meta index"), `{"id":1,"prices":{"EUR":1,"USD":"x","\u0045UR":3}}`), `
		p id=1
		  c are:
		  c id=1 currency="USD" amount="x" n=0
		  c id=1 currency="\u0045UR" amount=3 n=1`)
	want(t, mapped(t, child("p", "rows", "n", "", func(c *Table) { c.Parent = map[string]string{"id": "p_id"} }), `{"id":1,"rows":[{"n":1,"a":[{"b":"]"}],"id":5},{"n":2}]}`), `
		p id=1
		  c are:
		  c p_id=1 n=1 a=[{"b":"]"}] id=5
		  c p_id=1 n=2`)
	want(t, mapped(t, child("p", "rows", "n", ""), `{"id":1,"rows":[{"n":1,"id":"1"},{"n":2,"id":5}]}`), `
		error: table "c": the element has a field "id" of its own (5), and the column of that name has the key of its parent: parent: {id: p_id} renames that one (element 1 of rows)`)
	want(t, mapped(t, child("p", "rows", "n", "n: , item: id", func(c *Table) { c.Rest = fold.AddColumns }), `{"id":1,"rows":[{"n":1,"id":5,"x":2}]}`), `
		p id=1
		  c are:
		  c id=1 n=1 item=5 x=2`)
	want(t, mapped(t, child("", "rows", "n", "", func(c *Table) { c.When = when("n!=2") }), `{"id":1,"rows":[{"n":1,"x":0},{"n":2},{"n":3,"n":4}]}`), `
		p id=1
		c n=1 x=0
		c n=3 n=4`)
	m := child("p", "tags", "tag", "tag: .")
	m.MaxEach = 2
	want(t, mapped(t, m, `{"id":1,"tags":[1,2]}`, `{"id":1,"tags":[1,2,3]}`), `
		p id=1
		  c are:
		  c id=1 tag=1
		  c id=1 tag=2
		error: table "c": tags has more than 2 elements (max_each)`)
}

// TestMap_RowsThatOthersName come last, as changes of their own tables.
func TestMap_RowsThatOthersName(t *testing.T) {
	refers := func(column string) []Column {
		c := columns(column)
		c[len(c)-1].From[0].References = "p"
		return c
	}
	m := Mapping{Tables: []Table{
		{Name: "o", When: when("no"), Key: []string{"no"}, Columns: refers("no, p1: a"), DeleteWhen: when("op=d")},
		{Name: "i", Of: "o", Each: path("items"), Key: []string{"n"}, Columns: refers("n, p2: b")},
		{Name: "p", When: when("id"), Key: []string{"id"}, Columns: columns("id: as integer")},
	}}
	want(t, mapped(t, m, `{"no":1,"id":5,"a":"7","items":[{"n":1,"b":8},{"n":2,"b":null},{"n":3}]}`, `{"no":1,"a":9,"op":"d"}`, `{"no":1,"a":"x"}`), `
		p id=5
		o no=1 p1=7
		  i are:
		  i no=1 n=1 p2=8
		  i no=1 n=2 p2=null
		  i no=1 n=3 p2=null
		ensure p id=7
		ensure p id=8
		delete o no=1
		error: table "o", column "p1": a is "x": it is not an integer`)
}

// TestMap_TwoElementsOfOneKey: the last counts, and so do the sets in it.
func TestMap_TwoElementsOfOneKey(t *testing.T) {
	m := orders(ReplaceSet)
	m.Tables[0].Columns = columns("sku")
	m.Tables[2].Columns = columns("code")
	want(t, mapped(t, m, `{"id":1,"items":[{"sku":"x","taxes":[{"code":1}]},{"sku":"y"},{"sku":"x","taxes":[{"code":2}]}]}`), `
		orders id=1
		  items are:
		  items id=1 sku="y"
		  items id=1 sku="x"
		  taxes id=1 sku="x" code=2`)
}

// TestMap_DeleteWithoutAVersion: a delete that cannot be compared with the rows that it takes is
// rejected. Files have none, but records of Kafka may be deletes.
func TestMap_DeleteWithoutAVersion(t *testing.T) {
	got := folded(t, Mapping{Tables: []Table{
		{Name: "orders", Key: []string{"id"}, DeleteWhen: when("op=delete"), Columns: columns("id")},
		{Name: "items", Of: "orders", Each: path("items"), Set: MergeSet, Key: []string{"sku"}, Columns: columns("sku")},
		{Name: "taxes", Of: "items", Each: path("taxes"), Set: MergeSet, Key: []string{"code"}, Columns: columns("code"), Version: path("v")},
	}}, `{"id":1,"items":[{"sku":"x","taxes":[{"code":"a","v":1}]}]}`, `{"id":1,"op":"delete"}`)
	if want := "\n" + `rejected: table "orders": the delete has none, and the rows of "taxes" that go with the row do`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
