package mapping_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/foldtest"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/testcheck"
)

// TestMapping_Random: random mappings of random feeds, folded in batches that end anywhere by runs
// that end anywhere, make the tables and reject the lines that the plain model of a mapping does.
func TestMapping_Random(t *testing.T) {
	n := uint64(testcheck.Rounds(300, 2000))
	seen := map[string]int{}
	sinktest.Seeds(t, n, func(t *testing.T, rnd *rand.Rand) {
		d := &draw{Rand: rnd}
		m, textTypes := d.mapping(), rnd.IntN(2) == 0
		if d.one(2) && d.references(&m) {
			seen["references"]++
		}
		lines := make([]string, 1+rnd.IntN(1+rnd.IntN(60)))
		for i := range lines {
			lines[i] = d.message()
		}
		model := foldtest.NewModel(&m, textTypes)
		var want []string
		for i, l := range lines {
			outcome, err := model.Apply(l, int64(i+1), int64(10*i))
			if errors.Is(err, foldtest.ErrReferenced) {
				seen["deletes of rows that others name"]++
			}
			if err != nil {
				outcome = "rejected"
			}
			want = append(want, string(outcome))
			seen[string(outcome)]++
		}
		db := newMapDB(t, &m, textTypes)
		db.model = model
		got := db.sync(lines, rnd)
		ok := slices.Equal(got, want)
		for i, outcome := range want {
			if got[i] != outcome {
				t.Errorf("line %d %s is %s, want %s", i+1, lines[i], got[i], outcome)
			}
		}
		for _, table := range m.Tables {
			rows, plain := db.show(table.Name), model.Rows(table.Name)
			if seen["rows"] += len(plain); !slices.Equal(rows, plain) {
				ok = false
				t.Errorf("table %s has\n%s\nwant\n%s", table.Name, strings.Join(rows, "\n"), strings.Join(plain, "\n"))
			}
			if table.Of != "" && table.Set != mapping.MergeSet {
				seen["rows of sets"] += len(plain)
			}
		}
		if !ok {
			t.Fatalf("%s\n%s", describe(&m), strings.Join(lines, "\n"))
		}
	})
	for what, least := range map[string]int{"taken": 10, "rejected": 10, "ignored": 1, "no table": 1, "rows": 10, "rows of sets": 2, "references": 1, "deletes of rows that others name": 1} {
		if seen[what] < least*int(n)/10 && seen["taken"] > 1000 {
			t.Errorf("did not exercise: %d %s", seen[what], what)
		}
	}
}

// describe is a mapping for people.
func describe(m *mapping.Mapping) string {
	var b strings.Builder
	for _, t := range m.Tables {
		fmt.Fprintf(&b, "%s of=%q each=%s set=%s at=%s id=%q key=%v type=%s rest=%q null=%q fill=%v version=%s %s\n  when %+v delete %+v\n", t.Name, t.Of, t.Each, t.Set, t.At, t.ID, t.Key, t.Type.Kind, t.Rest, t.Null, t.FillOnly, t.Version, t.Scope, t.When, t.DeleteWhen)
		for _, c := range t.Columns {
			fmt.Fprintf(&b, "  %s:", c.Name)
			for _, s := range c.From {
				fmt.Fprintf(&b, " [%s as %s value %s meta %s when %+v references %s]", s.From, s.As, s.Value, s.Meta, s.When, s.References)
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

type draw struct {
	*rand.Rand
	fleet bool // the feed is about planes, and flights and crews that name them
}

func (d *draw) of(texts ...string) string { return texts[d.IntN(len(texts))] }
func (d *draw) one(in int) bool           { return d.IntN(in) == 0 }

// message is a line of a feed.
func (d *draw) message() string {
	if d.fleet {
		return d.fleetMessage()
	}
	if d.one(40) {
		return d.of(`{}`, `{"type":"x"}`, `{"id":1,"type":"a","\u0069tems":[{"sku":1,"sku":2}]}`)
	}
	var fields []string
	add := func(name, value string) { fields = append(fields, fmt.Sprintf("%q:%s", name, value)) }
	add("type", d.of(`"a"`, `"a"`, `"a"`, `"b"`, `"c"`, `null`, `7`))
	if !d.one(15) {
		add("id", d.of("1", `"1"`, "2", `"x"`, "3", `"2"`))
	}
	add("v", d.of("1", "2", "3", `"2"`, "4", "5.0", `"x"`))
	for range d.IntN(5) {
		add(d.of("a", "b", "c", "d"), d.value())
	}
	if d.one(3) {
		add("obj", d.object(map[string]func() string{"x": func() string { return d.of("1", "2", `"1"`) }, "y": func() string {
			return d.object(map[string]func() string{"z": d.value, "w": d.value})
		}, "a": d.value}))
	}
	if d.one(4) {
		add("list", d.list(d.value))
	}
	if d.one(2) {
		item := d.item
		if d.one(2) {
			item = d.update
		}
		add("items", d.list(item))
	}
	if d.one(4) {
		add("tags", d.list(d.value))
	}
	if d.one(4) {
		add("prices", d.object(map[string]func() string{"EUR": d.value, "USD": d.item, "x": d.value}))
	}
	if d.one(3) {
		add("op", d.of(`"delete"`, `"put"`))
	}
	if d.one(2) {
		add("ref", d.of("1", `"1"`, "2", `"x"`, "3", `"2"`, "null"))
	}
	d.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	return "{" + strings.Join(fields, d.of(",", ", ", ",")) + "}"
}

func (d *draw) object(of map[string]func() string) string {
	if d.one(6) {
		return d.of("null", "7", "{}", "[]", `"x"`)
	}
	var fields []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		for range d.IntN(2) + d.IntN(5)/4 {
			fields = append(fields, fmt.Sprintf("%q:%s", name, of[name]()))
		}
	}
	return "{" + strings.Join(fields, ",") + "}"
}

func (d *draw) list(of func() string) string {
	if d.one(8) {
		return d.of("null", "7", "{}", "[]", "[]")
	}
	var all []string
	for range d.IntN(5) {
		all = append(all, of())
	}
	return "[" + strings.Join(all, ",") + "]"
}

func (d *draw) item() string {
	return d.object(map[string]func() string{"sku": func() string { return d.of(`"x"`, `"y"`, "1", `"1"`) }, "qty": d.value, "v": func() string { return d.of("1", "2") },
		"taxes": func() string {
			return d.list(func() string {
				return d.object(map[string]func() string{"code": func() string { return d.of("1", "2") }, "amount": d.value})
			})
		}})
}

func (d *draw) value() string {
	switch d.IntN(4) {
	case 0:
		return d.of("1", "7", `"7"`, "440.0", "440.7", `"0412"`, "-0", "1e3", "9223372036854775807", "9223372036854775808", "12.34", "12.345", `"12.340"`, "0.1234567890123456789", "1e400", "0", `"0"`, "-12.5", `"+3"`)
	case 1:
		return d.of(`"2020-05-15T13:30:00Z"`, `"2020-05-15T13:30:00.5+02:00"`, `"1589549400"`, "1589549400.25", "1589549400123", "-0.25", `"2020-05-15"`, "18397", "1e11", "1e12", "0.0000001", `"2020-05-15T13:30:00.1234567Z"`)
	case 2:
		return d.of(`"x"`, `"\u0041\"<"`, `""`, "true", "false", `"true"`, `"A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"`, `"AP8="`, `{"k": [1, "]"]}`, `[1]`, `"null"`)
	}
	return d.of("null", "null", "1", "2", `"x"`, "true")
}

func (d *draw) condition() mapping.When {
	w := when(d.of("type=a", "type=a|b", "type!=a", "type", "!b", "a=1|x", "b!=null|x", "obj.y.z=1|x|null", "type!=x", "$.type=a|7|null"))
	if d.one(4) {
		w[0] = append(w[0], when(d.of("a!=x", "type=a|b", "c"))[0]...)
	}
	if d.one(4) {
		w = append(w, d.condition()...)
	}
	return w
}

func (d *draw) mapping() (m mapping.Mapping) {
	if d.one(3) {
		m.Ignore = when(d.of("type=c", "a=x", "type=null"))
	}
	if d.one(3) {
		m.MaxEach = 1 + d.IntN(4)
	}
	if d.one(4) {
		m.Tables = d.orders()
		return m
	}
	if d.fleet = d.one(4); d.fleet {
		m.Tables = d.fleetTables()
		return m
	}
	for i := range 1 + d.IntN(3) {
		m.Tables = append(m.Tables, d.table(fmt.Sprint("t", i)))
		if of := &m.Tables[len(m.Tables)-1]; !d.one(3) {
			m.Tables = append(m.Tables, d.children(of)...)
		}
	}
	if d.one(8) { // elements that belong to no row
		m.Tables = append(m.Tables, mapping.Table{Name: "loose", Each: path(d.of("items", "tags", "obj.y")), Key: []string{"k"}, Columns: columns("k: sku; ., id: $.id, parent: ^.type")})
	}
	d.Shuffle(len(m.Tables), func(i, j int) { m.Tables[i], m.Tables[j] = m.Tables[j], m.Tables[i] })
	return m
}

func (d *draw) table(name string) mapping.Table {
	t := mapping.Table{Name: name, Key: []string{"id"}}
	if !d.one(3) {
		t.When = d.condition()
	}
	key := "id"
	if d.one(3) {
		t.ID = "sid"
	}
	if d.one(4) {
		t.At, key = path(d.of("obj", "obj", "obj.y")), d.of("x", "$.id")
	}
	if d.one(4) && len(t.At.Steps) == 0 {
		d.rules(&t, "")
		return t
	}
	t.Columns = columns("id: " + key + d.of("", " as text", " as integer"))
	if d.one(5) {
		t.Key = append(t.Key, "k2")
		t.Columns = append(t.Columns, columns("k2: "+d.of("a", "b as text", "v", "=7"))...)
	}
	for i := range d.IntN(5) {
		t.Columns = append(t.Columns, d.column(fmt.Sprint("c", i), "a", "b", "c", "d", "obj.x", "obj.y.z", "list[0]", "list[1].n", "$.a", "type", ".", "x", "y.z"))
	}
	if d.one(3) {
		t.Type = mapping.Type{Kind: mapping.Text}
	}
	t.Rest = fold.NewColumns(d.of("", "", "ignore", "add", "reject"))
	d.rules(&t, "ver")
	return t
}

// fleetTables are tables whose rows name those of another one, which messages delete as well.
func (d *draw) fleetTables() []mapping.Table {
	names := mapping.Column{Name: "reg", From: []mapping.Source{source("ref", "")}}
	names.From[0].References = "planes"
	planes := mapping.Table{Name: "planes", When: when("type=plane|both"), Key: []string{"id"}, ID: d.of("", "pid"), Columns: columns("id, n")}
	flights := mapping.Table{Name: "flights", When: when("type=flight|both"), Key: []string{"id"}, Columns: append(columns("id, n"), names)}
	crews := mapping.Table{Name: "crews", When: when("type=crew"), Key: []string{"id"}, Columns: columns("id, n")}
	members := mapping.Table{Name: "members", Of: "crews", Each: path("items"), Set: mapping.Set(d.of("replace", "merge")), Key: []string{"sku"}, Parent: map[string]string{"id": "crew"}, Columns: append(columns("sku"), names)}
	for _, t := range []*mapping.Table{&planes, &flights, &crews} {
		switch t.DeleteWhen = when("op=delete"); d.IntN(6) {
		case 0:
			t.Version = path("$.v")
		case 1:
			if t != &crews { // whose members would need the column, too
				t.Version, t.Scope = path("$.v"), fold.RowScope
				t.Columns = append(t.Columns, columns("ver: $.v as text")...)
			}
		case 2:
			t.Null = fold.KeepNull
		}
	}
	return []mapping.Table{planes, flights, crews, members}
}

func (d *draw) fleetMessage() string {
	number := func() string { return d.of("1", "2", "3") }
	of := d.of("plane", "plane", "flight", "flight", "crew", "both")
	fields := fmt.Sprintf(`"type":%q,"id":%s,"v":%d`, of, number(), 1+d.IntN(4))
	if d.one(3) {
		fields += `,"op":"delete"`
	}
	if d.one(2) {
		fields += `,"n":` + d.of("1", "2", "null")
	}
	if of != "plane" && !d.one(4) {
		fields += `,"ref":` + d.of("1", "2", "3", "null")
	}
	if of == "crew" && !d.one(4) {
		var members []string
		for range d.IntN(3) {
			members = append(members, fmt.Sprintf(`{"sku":%s,"ref":%s}`, d.of("1", "2"), number()))
		}
		fields += `,"items":[` + strings.Join(members, ",") + "]"
	}
	return "{" + fields + "}"
}

// references may have a table name rows of another one.
func (d *draw) references(m *mapping.Mapping) bool {
	for _, i := range d.Perm(len(m.Tables)) {
		for _, j := range d.Perm(len(m.Tables)) {
			from, to := &m.Tables[i], &m.Tables[j]
			if i == j || d.fleet && from.Name == "planes" || from.Of != "" || to.Of != "" || from.Columns == nil || to.Columns == nil || from.Each.Base != mapping.NoBase || !slices.Equal(to.Key, []string{"id"}) {
				continue
			}
			s := source(d.of("ref", "$.ref", "ref", "id"), "")
			s.References = to.Name
			from.Columns = append(from.Columns, mapping.Column{Name: "names", From: []mapping.Source{s}})
			return true
		}
	}
	return false
}

// rules draws the rules of a fold. A version of whole rows is kept in a column.
func (d *draw) rules(t *mapping.Table, column string) {
	switch d.IntN(6) {
	case 0:
		t.FillOnly = true
		return
	case 1:
		t.Version = path("v")
	case 2:
		if t.Version, t.Scope = path("$.v"), fold.RowScope; column != "" {
			t.Columns = append(t.Columns, columns(column+": $.v as text")...)
		} else {
			t.Version = path("v")
		}
	}
	if d.one(3) {
		t.DeleteWhen = when("op=delete")
	}
	if d.one(4) {
		t.Null = fold.KeepNull
	}
}

func (d *draw) column(name string, paths ...string) mapping.Column {
	c := mapping.Column{Name: name}
	for range 1 + d.IntN(2) {
		text := ""
		switch d.IntN(8) {
		case 0:
			text = "=" + d.of(`"webshop"`, "7", "null", "true")
		case 1:
			text = "meta " + d.of("line", "offset", "source")
		default:
			if text = d.of(paths...); d.one(2) {
				text += " as " + d.of("text", "integer", "real", "numeric", "numeric(12,2)", "numeric(3,1)", "boolean", "json", "timestamp", "timestamp", "timestamp_ms", "timestamp_us", "timestamp_ns", "date", "date_days", "uuid", "bytes")
			}
		}
		s := source(text, name)
		if d.one(4) {
			s.When = d.condition()
		}
		if s.As.Kind == mapping.JSON { // what JSON is beside another type depends on the column
			c.From = []mapping.Source{s}
			return c
		}
		c.From = append(c.From, s)
	}
	return c
}

// children are tables of the elements of arrays in the rows of one.
func (d *draw) children(of *mapping.Table) (tables []mapping.Table) {
	carried := cmp.Or(of.ID, "id")
	rename := map[string]string{carried: of.Name + "_id"}
	set := mapping.Set(d.of("", "replace", "merge"))
	if of.FillOnly {
		set = mapping.MergeSet
	}
	if of.Scope == fold.RowScope {
		defer func() {
			for i := range tables {
				keepVersion(&tables[i])
			}
		}()
	}
	switch d.IntN(4) {
	case 0:
		return []mapping.Table{{Name: of.Name + "_tags", Of: of.Name, Each: path("tags"), Set: set, Key: []string{"tag"}, Columns: columns("tag: ." + d.of("", " as text") + ", n: meta index"), Parent: rename}}
	case 1:
		return []mapping.Table{{Name: of.Name + "_prices", Of: of.Name, Each: path("prices"), Set: set, Key: []string{"currency"}, Columns: columns("currency: meta key, amount: ., sku"), Parent: rename}}
	}
	items := mapping.Table{Name: of.Name + "_items", Of: of.Name, Each: path(d.of("items", "items", "$.items")), Set: set, Key: []string{"sku"}, Parent: rename}
	if d.one(6) {
		items.ID = "iid"
	}
	if !d.one(5) {
		items.Columns = columns("sku")
		for i := range d.IntN(4) {
			items.Columns = append(items.Columns, d.column(fmt.Sprint("c", i), "qty", "taxes", "v", "$.a", "^.b", ".", "^.obj.x"))
		}
		items.Rest = fold.NewColumns(d.of("", "", "add", "reject"))
	}
	if d.one(3) {
		items.When = when(d.of("qty", "qty!=1", "$.type=a|b", "^.type!=a"))
	}
	if set == mapping.MergeSet {
		if d.one(3) {
			items.DeleteWhen = when("qty=0|null")
		}
		if d.one(3) && of.DeleteWhen == nil {
			items.Version, items.Scope = path(d.of("v", "$.v")), fold.ColumnScope
		}
	}
	tables = append(tables, items)
	if d.one(2) {
		taxes := mapping.Table{Name: of.Name + "_taxes", Of: items.Name, Each: path("taxes"), Set: set, Key: []string{"code"}}
		if set == mapping.MergeSet && d.one(3) {
			taxes.Set = mapping.ReplaceSet
		}
		if d.one(2) {
			taxes.Columns = columns("code, amount: " + d.of("amount", "amount as numeric(12,2)", "^.qty"))
		}
		tables = append(tables, taxes)
	}
	return tables
}
