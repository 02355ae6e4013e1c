package sinktest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/merge"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/mapping/cast"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/test/foldtest"
	"github.com/weirsync/weir/internal/test/testcheck"
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

// VersionedShop is the merged shop with versions in its messages.
func VersionedShop(t *testing.T, scope fold.Scope) *mapping.Mapping {
	t.Helper()
	m := MergedShop(t)
	inVersions(m, scope)
	return m
}

// inVersions gives a shop's messages versions, which are stored in its rows.
func inVersions(m *mapping.Mapping, scope fold.Scope) {
	m.Tables[0].Version, m.Tables[0].Scope = path("$.v"), scope
	for i := range m.Tables {
		m.Tables[i].Columns = append(m.Tables[i].Columns, columns("v: $.v as integer")...)
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
		n := BeginNested(t, db, m, false)
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
		n := BeginNested(t, db, Shop(t), false)
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
	{"Random", func(t *testing.T, db Database) {
		count := uint64(testcheck.Rounds(10, 40))
		Seeds(t, count, func(t *testing.T, rnd *rand.Rand) { randomSets(t, db, rnd) })
	}},
}

// randomSets: two jobs write a random feed in random batches, with failing calls and ending runs.
func randomSets(t *testing.T, db Database, rnd *rand.Rand) {
	m := Generated(t, []string{"", "oid"}[rnd.IntN(2)], []string{"", "iid"}[rnd.IntN(2)])
	versioned := rnd.IntN(2) == 0
	if versioned {
		scope := fold.ColumnScope
		if rnd.IntN(3) == 0 {
			scope = fold.RowScope
		}
		inVersions(m, scope)
	}
	merged := []int{0, 1, 1, 2}[rnd.IntN(4)] // how many levels are updates
	for i := range m.Tables {
		if i > 0 && rnd.IntN(3) == 0 {
			m.Tables[i].UnknownFields = fold.AddUnknown
		}
		if i > 0 && i <= merged {
			m.Tables[i].Set = mapping.MergeSet
		}
	}
	if !versioned && rnd.IntN(2) == 0 {
		mergeShop(m, rnd)
	}
	if merged > 0 && rnd.IntN(2) == 0 {
		m.Tables[1].DeleteWhen = when("qty=2")
	}
	d, _ := db.Driver()
	model := foldtest.NewModel(m, d.Caps.TextTypes)
	constrained := rnd.IntN(2) == 0
	begin := func(job string) *Run {
		n := BeginNestedJob(t, db, job, m, constrained)
		n.Sink = Retry(Faulty(n.Sink, RandomFaults(rnd)), time.Minute, func(*sink.Error) {})
		return n
	}
	jobs := []string{"one", "other"}[:1+rnd.IntN(2)]
	var writers []*Run
	for _, job := range jobs {
		writers = append(writers, begin(job))
	}
	var lines, batch []string
	for range 10 + rnd.IntN(60) {
		line := randomOrder(rnd)
		lines, batch = append(lines, line), append(batch, line)
		_, _ = model.Apply(line, 0, 0)
		if w := rnd.IntN(len(writers)); rnd.IntN(4) == 0 {
			writers[w].Flush(batch...)
			if batch = nil; rnd.IntN(4) == 0 {
				writers[w].End()
				writers[w] = begin(jobs[w])
			}
		}
	}
	n := writers[0]
	n.Flush(batch...)
	for i := range m.Tables {
		if want, got := model.Rows(m.Tables[i].Name), n.rows(db, model, i); !slices.Equal(got, want) {
			t.Fatalf("table %s has\n%s\nwant\n%s\nfrom\n%s", m.Tables[i].Name, strings.Join(got, "\n"), strings.Join(want, "\n"), strings.Join(lines, "\n"))
		}
	}
	for _, n := range writers {
		n.drop(db)
	}
}

// mergeShop makes columns of a shop merge by functions.
func mergeShop(m *mapping.Mapping, rnd *rand.Rand) {
	any := []merge.Function{merge.Last, merge.First, merge.Min, merge.Max}
	for i, columns := range []string{"status", "qty more", "amount other"} {
		m.Tables[i].Merge = map[string]merge.Function{}
		for j, name := range strings.Fields(columns) {
			of := any
			if i > 0 && j == 0 {
				of = append(of, merge.Sum, merge.Sum)
			}
			m.Tables[i].Merge[name] = of[rnd.IntN(len(of))]
		}
		if i > 0 && m.Tables[i].Set != mapping.MergeSet {
			m.Tables[i].Merge = nil
		}
	}
}

func randomOrder(rnd *rand.Rand) string {
	pick := func(of ...string) string { return of[rnd.IntN(len(of))] }
	list := func(of func() string) string {
		var all []string
		for range rnd.IntN(4) {
			all = append(all, of())
		}
		return "[" + strings.Join(all, ",") + "]"
	}
	line := `{"id":` + pick("1", "2", "3", `"1"`, "4") + `,"v":` + strconv.Itoa(rnd.IntN(20))
	if rnd.IntN(5) == 0 {
		line += `,"op":"delete"`
	}
	if rnd.IntN(2) == 0 {
		line += `,"status":` + pick(`"a"`, `"b"`, "null")
	}
	if rnd.IntN(3) > 0 {
		line += `,"items":` + pick("null", "[]", list(func() string {
			item := `{"sku":` + pick(`"x"`, `"y"`, `"z"`, "1", `"1"`)
			if rnd.IntN(2) == 0 {
				item += `,"qty":` + pick("1", "2", "null", `"3"`, `"bad"`)
			}
			if rnd.IntN(3) == 0 {
				item += `,"more":` + pick(`"m"`, "null")
			}
			if rnd.IntN(2) == 0 {
				item += `,"taxes":` + list(func() string {
					return `{"code":` + pick(`"a"`, `"b"`) + pick("", `,"amount":5`, `,"amount":6`, `,"other":"o"`) + "}"
				})
			}
			return item + "}"
		}), list(func() string { return `{"sku":` + pick(`"x"`, `"y"`) + "}" }))
	}
	return line + "}"
}

// rows returns the rows of a table in the mapping's model.
func (r *Run) rows(db Database, model *foldtest.Model, table int) []string {
	t, err := r.table(table)
	if err != nil {
		r.t.Fatal(err)
	}
	rows := []string{}
	if !t.Exists {
		return rows
	}
	key := model.Key(t.Name)
	var names, have []string
	numbers := map[string]bool{} // a database may store them as text
	for _, c := range r.Mapping.Tables[table].Columns {
		numbers[c.Name] = c.From[0].As.Kind == cast.Integer
	}
	for i := range t.Columns {
		c := &t.Columns[i]
		switch owner := t.Owner(); {
		case c.Hidden:
			part := slices.Index(owner.From, i)
			names, have = append(names, key[part]), append(have, rowKeySQL(owner.To, t.Name+"."+t.Columns[owner.Column].Name, part))
		case c.Stored() && !c.Serial && (owner == nil || owner.Column != i):
			names, have = append(names, c.Name), append(have, t.Name+"."+c.Name)
		}
	}
	for _, row := range db.Query(r.t, "SELECT "+strings.Join(have, ", ")+" FROM "+t.Name) {
		cells := map[string]foldtest.Value{}
		for i, v := range row {
			switch v := v.(type) {
			case nil:
				cells[names[i]] = foldtest.Value{}
			case int64:
				cells[names[i]] = foldtest.Value{Kind: foldtest.Number, Text: strconv.FormatInt(v, 10)}
			case float64:
				cells[names[i]] = foldtest.Value{Kind: foldtest.Number, Text: show(v)}
			default:
				kind := foldtest.String
				if numbers[names[i]] {
					kind = foldtest.Number
				}
				cells[names[i]] = foldtest.Value{Kind: kind, Text: fmt.Sprint(v)}
			}
		}
		rows = append(rows, foldtest.Show(cells, key))
	}
	slices.Sort(rows)
	return rows
}
