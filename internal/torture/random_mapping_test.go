package torture

import (
	"cmp"
	"database/sql"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/weirsync/weir/internal/config"
	folding "github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/foldtest"
	"github.com/weirsync/weir/internal/mapping"
)

// drawMapping has a case be about the tables of a config file.
func (c *randomCase) drawMapping(rnd *rand.Rand, file string) {
	c.messages = &mappingDraw{Rand: rnd}
	for right := false; !right; { // some have conditions that no message meets
		m := c.messages.mapping()
		if rnd.IntN(2) == 0 {
			c.messages.references(&m)
		}
		for i := range m.Tables {
			t := &m.Tables[i]
			t.MaxColumns = 1000
			for j := range t.Columns {
				if from := t.Columns[j].From; slices.Contains(t.Key, t.Columns[j].Name) && from[0].Value == nil {
					for k := range from {
						from[k].As = mapping.Type{Kind: mapping.Text}
					}
				}
			}
			if t.Type.Kind == mapping.DefaultType {
				t.Type.Kind = mapping.Auto
			}
		}
		text, err := config.Print(&m)
		if err == nil {
			err = os.WriteFile(file, text, 0o600)
		}
		if err != nil {
			panic(err)
		}
		_, err = config.Resolve(nil, nil, file, []string{"sqlite", "postgres"}, func() folding.Options { return folding.Options{Key: []string{"id"}, MaxColumns: 1000} })
		right, c.mapping, c.config = err == nil, &m, string(text)
	}
}

// lines draws lines of a feed.
func (d *mappingDraw) lines(n int) (lines []string) {
	for range n {
		lines = append(lines, d.message())
	}
	return lines
}

// A mappedModel is what a mapping makes of a feed, and what the database knows rows by that have keys of their own.
type mappedModel struct {
	*foldtest.Model
	keys map[string]map[string][]string // by table and what the database knows a row by
	born map[string]map[string]string   // what it knows a row by, by table and row
}

// checkMapping tells how the tables differ from the model's.
func (r *running) checkMapping(db *sql.DB) (faults []string, err error) {
	m := &r.mapped
	before := m.born
	m.keys, m.born = map[string]map[string][]string{}, map[string]map[string]string{}
	tables := map[string]tableRows{}
	for _, t := range m.ParentsFirst() {
		rows, err := r.rowsOf(db, t.Name)
		if err != nil {
			return nil, err
		}
		tables[t.Name] = rows
		if t.ID != "" && len(rows.columns) > 0 {
			faults = append(faults, m.identify(&t, rows, before[t.Name])...)
		}
	}
	for i := range r.mapping.Tables {
		t := &r.mapping.Tables[i]
		faults = append(faults, m.differences(t, tables[t.Name])...)
	}
	return faults, nil
}

func (m *mappedModel) differences(t *mapping.Table, rows tableRows) (faults []string) {
	want, keys := m.Cells(t.Name), m.Key(t.Name)
	_, owner := m.Owner(t.Name)
	have := map[string]map[string]cell{}
	for _, row := range rows.rows {
		key := foldtest.Key(m.key(t.Name, row)...)
		have[key] = row
		if want[key] == nil {
			faults = append(faults, fmt.Sprintf("%s has the row %s", t.Name, key))
			continue
		}
		for name, c := range row {
			c = m.named(t, name, c)
			if w := want[key][name]; name != t.ID && name != owner && !slices.Contains(keys, name) && !sameMapped(w, c) {
				faults = append(faults, fmt.Sprintf("%s %s: %s is %s %q, want %s", t.Name, key, name, c.kind, c.text, w.JSON()))
			}
		}
	}
	if len(have) < len(rows.rows) {
		faults = append(faults, t.Name+" has a row twice")
	}
	for key, row := range want {
		if have[key] == nil {
			faults = append(faults, fmt.Sprintf("%s lacks the row %s", t.Name, key))
			continue
		}
		for name, w := range row {
			if _, exists := have[key][name]; !exists && w.Kind != foldtest.Null && !strings.HasPrefix(name, "\x01") {
				faults = append(faults, fmt.Sprintf("%s %s lacks %s=%s", t.Name, key, name, w.JSON()))
			}
		}
	}
	return faults
}

// key is that of a row as messages have it: what the database knows the row above by stands for its
// key.
func (m *mappedModel) key(table string, row map[string]cell) (key []string) {
	owner, column := m.Owner(table)
	if owner != "" {
		key = m.keys[owner][row[column].text]
	}
	for _, k := range m.Key(table)[len(key):] {
		key = append(key, row[k].text)
	}
	return key
}

// named is the value of a column as messages have it, which name rows of other tables by their keys.
func (m *mappedModel) named(t *mapping.Table, column string, c cell) cell {
	i := slices.IndexFunc(t.Columns, func(c mapping.Column) bool { return c.Name == column })
	if i < 0 || t.Columns[i].From[0].References == "" || c.kind == "null" {
		return c
	}
	if keys := m.keys[t.Columns[i].From[0].References]; keys != nil {
		return cell{"text", strings.Join(keys[c.text], " ")}
	}
	return c
}

// identify notes the keys of rows by what the database knows them by, and finds those that it knows by something
// else than before.
func (m *mappedModel) identify(t *mapping.Table, rows tableRows, before map[string]string) (faults []string) {
	keys, ids, born := map[string][]string{}, map[string]string{}, m.Born(t.Name)
	m.keys[t.Name], m.born[t.Name] = keys, ids
	for _, row := range rows.rows {
		id, key := row[t.ID], m.key(t.Name, row)
		if id.kind == "null" || keys[id.text] != nil {
			faults = append(faults, fmt.Sprintf("%s %q has the %s %q of %q", t.Name, key, t.ID, id.text, keys[id.text]))
		}
		keys[id.text] = key
		if n, ok := born[foldtest.Key(key...)]; ok {
			one := fmt.Sprint(foldtest.Key(key...), " ", n)
			if was, known := before[one]; known && was != id.text {
				faults = append(faults, fmt.Sprintf("%s %q: its %s was %s and is %s", t.Name, key, t.ID, was, id.text))
			}
			ids[one] = id.text
		}
	}
	return faults
}

// sameMapped reports whether a database holds a value, in whatever type its column has.
func sameMapped(want foldtest.Value, have cell) bool {
	if want.Kind == foldtest.Null || have.kind == "null" {
		return want.Kind == foldtest.Null && have.kind == "null"
	}
	if have.kind == "json" && have.text[0] == '"' {
		have.text = foldtest.MustParse(have.text).Text
	}
	switch want.Kind {
	case foldtest.Bool:
		return have.text == want.Text || have.text == map[string]string{"true": "1", "false": "0"}[want.Text]
	case foldtest.Number, foldtest.JSON:
		return want.Is(have.text)
	}
	if have.text == want.Text {
		return true
	}
	w, isTime := instant(want.Text)
	h, isToo := instant(have.text)
	return isTime && isToo && w.Equal(h)
}

// instant reads the time of a column that is of such a type.
func instant(text string) (time.Time, bool) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999", "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999Z07", time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

// A mappingDraw draws the tables of a config file, and a feed that has something for most of them.
type mappingDraw struct {
	*rand.Rand
	fleet bool // the feed is about planes, and flights and crews that name them
}

func (d *mappingDraw) of(texts ...string) string { return texts[d.IntN(len(texts))] }
func (d *mappingDraw) one(in int) bool           { return d.IntN(in) == 0 }

// message is a line of a feed.
func (d *mappingDraw) message() string {
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

func (d *mappingDraw) object(of map[string]func() string) string {
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

func (d *mappingDraw) list(of func() string) string {
	if d.one(8) {
		return d.of("null", "7", "{}", "[]", "[]")
	}
	var all []string
	for range d.IntN(5) {
		all = append(all, of())
	}
	return "[" + strings.Join(all, ",") + "]"
}

func (d *mappingDraw) item() string {
	return d.object(map[string]func() string{"sku": func() string { return d.of(`"x"`, `"y"`, "1", `"1"`) }, "qty": d.value, "v": func() string { return d.of("1", "2") },
		"taxes": func() string {
			return d.list(func() string {
				return d.object(map[string]func() string{"code": func() string { return d.of("1", "2") }, "amount": d.value})
			})
		}})
}

func (d *mappingDraw) value() string {
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

func (d *mappingDraw) condition() mapping.When {
	tests := []string{d.of("type=a", "type=a|b", "type!=a", "type", "!b", "a=1|x", "b!=null|x", "obj.y.z=1|x|null", "type!=x", "$.type=a|7|null")}
	if more := d.of("a!=x", "type=a|b", "c"); d.one(4) && more[0] != tests[0][0] { // a file has one test of a path
		tests = append(tests, more)
	}
	w := foldtest.When(tests...)
	if d.one(4) {
		w = append(w, d.condition()...)
	}
	return w
}

func (d *mappingDraw) mapping() (m mapping.Mapping) {
	m.MaxEach, m.MaxTables, m.Unmatched = mapping.DefaultMaxEach, mapping.DefaultMaxTables, mapping.IgnoreUnmatched
	if d.one(3) {
		m.Ignore = foldtest.When(d.of("type=c", "a=x", "type=null"))
	}
	if d.one(3) {
		m.MaxEach = 1 + d.IntN(4)
	}
	if d.one(4) {
		m.Tables = d.orders()
		return m
	}
	if d.fleet = d.one(3); d.fleet {
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
		m.Tables = append(m.Tables, mapping.Table{Name: "loose", Each: foldtest.Path(d.of("items", "tags", "obj.y")), Key: []string{"k"}, Columns: foldtest.Columns("k: sku; ., id: $.id, parent: ^.type")})
	}
	d.Shuffle(len(m.Tables), func(i, j int) { m.Tables[i], m.Tables[j] = m.Tables[j], m.Tables[i] })
	return m
}

func (d *mappingDraw) table(name string) mapping.Table {
	t := mapping.Table{Name: name, Key: []string{"id"}}
	if !d.one(3) {
		t.When = d.condition()
	}
	key := "id"
	if d.one(3) {
		t.ID = "sid"
	}
	if d.one(4) {
		t.At, key = foldtest.Path(d.of("obj", "obj", "obj.y")), d.of("x", "$.id")
	}
	if d.one(4) && len(t.At.Steps) == 0 {
		d.rules(&t, "")
		return t
	}
	t.Columns = foldtest.Columns("id: " + key + " as text") // which numbers are one key depends on the type of its column
	if d.one(5) {
		t.Key = append(t.Key, "k2")
		t.Columns = append(t.Columns, foldtest.Columns("k2: "+d.of("a as text", "b as text", "v as text", "=7"))...)
	}
	for i := range d.IntN(5) {
		t.Columns = append(t.Columns, d.column(fmt.Sprint("c", i), "a", "b", "c", "d", "obj.x", "obj.y.z", "list[0]", "list[1].n", "$.a", "type", ".", "x", "y.z"))
	}
	if d.one(3) {
		t.Type = mapping.Type{Kind: mapping.Text}
	}
	t.Rest = folding.NewColumns(d.of("", "", "ignore", "add", "reject"))
	d.rules(&t, "ver")
	return t
}

// fleetTables are tables whose rows name those of another one, which messages delete as well.
func (d *mappingDraw) fleetTables() []mapping.Table {
	names := mapping.Column{Name: "reg", From: []mapping.Source{foldtest.Source("ref", "")}}
	names.From[0].References = "planes"
	planes := mapping.Table{Name: "planes", When: foldtest.When("type=plane|both"), Key: []string{"id"}, ID: d.of("", "pid"), Columns: foldtest.Columns("id, n")}
	flights := mapping.Table{Name: "flights", When: foldtest.When("type=flight|both"), Key: []string{"id"}, Columns: append(foldtest.Columns("id, n"), names)}
	crews := mapping.Table{Name: "crews", When: foldtest.When("type=crew"), Key: []string{"id"}, Columns: foldtest.Columns("id, n")}
	members := mapping.Table{Name: "members", Of: "crews", Each: foldtest.Path("items"), Set: mapping.Set(d.of("replace", "merge")), Key: []string{"sku"}, Parent: map[string]string{"id": "crew"}, Columns: append(foldtest.Columns("sku"), names)}
	for _, t := range []*mapping.Table{&planes, &flights, &crews} {
		switch t.DeleteWhen = foldtest.When("op=delete"); d.IntN(6) {
		case 0:
			t.Version = foldtest.Path("$.v")
		case 1:
			if t != &crews { // whose members would need the column, too
				t.Version, t.Scope = foldtest.Path("$.v"), folding.RowScope
				t.Columns = append(t.Columns, foldtest.Columns("ver: $.v as text")...)
			}
		case 2:
			t.Null = folding.KeepNull
		}
	}
	return []mapping.Table{planes, flights, crews, members}
}

func (d *mappingDraw) fleetMessage() string {
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
func (d *mappingDraw) references(m *mapping.Mapping) bool {
	for _, i := range d.Perm(len(m.Tables)) {
		for _, j := range d.Perm(len(m.Tables)) {
			from, to := &m.Tables[i], &m.Tables[j]
			if i == j || d.fleet && from.Name == "planes" || from.Of != "" || to.Of != "" || from.Columns == nil || to.Columns == nil || from.Each.Base != mapping.NoBase || !slices.Equal(to.Key, []string{"id"}) {
				continue
			}
			s := foldtest.Source(d.of("ref", "$.ref", "ref", "id"), "")
			s.References = to.Name
			from.Columns = append(from.Columns, mapping.Column{Name: "names", From: []mapping.Source{s}})
			return true
		}
	}
	return false
}

// rules draws the rules of a fold. A version of whole rows is kept in a column.
func (d *mappingDraw) rules(t *mapping.Table, column string) {
	switch d.IntN(6) {
	case 0:
		t.FillOnly = true
		return
	case 1:
		t.Version = foldtest.Path("v")
	case 2:
		if t.Version, t.Scope = foldtest.Path("$.v"), folding.RowScope; column != "" {
			t.Columns = append(t.Columns, foldtest.Columns(column+": $.v as text")...)
		} else {
			t.Version = foldtest.Path("v")
		}
	}
	if d.one(3) {
		t.DeleteWhen = foldtest.When("op=delete")
	}
	if d.one(4) {
		t.Null = folding.KeepNull
	}
}

func (d *mappingDraw) column(name string, paths ...string) mapping.Column {
	c := mapping.Column{Name: name}
	for range 1 + d.IntN(2) {
		if n := len(c.From); n > 0 && c.From[0].When == nil && (c.From[0].Value != nil || c.From[0].Meta != mapping.NoMeta) {
			break // there is always a value
		}
		text := ""
		switch d.IntN(8) {
		case 0:
			text = "=" + d.of(`"webshop"`, "7", "null", "true")
		case 1:
			text = "meta " + d.of("line", "offset")
		default:
			if text = d.of(paths...); d.one(2) {
				text += " as " + d.of("text", "integer", "real", "numeric", "numeric(12,2)", "numeric(3,1)", "boolean", "json", "timestamp", "timestamp", "timestamp_ms", "timestamp_us", "timestamp_ns", "date", "date_days", "uuid", "bytes")
			}
		}
		s := foldtest.Source(text, name)
		if d.one(4) {
			s.When = d.condition()
		}
		if s.As.Kind == mapping.JSON { // what JSON is beside another type depends on the column
			c.From = []mapping.Source{s}
			return c
		}
		if len(c.From) == 0 || c.From[0].When != nil || c.From[0].From.String() != s.From.String() {
			c.From = append(c.From, s)
		}
	}
	return c
}

// children are tables of the elements of arrays in the rows of one.
func (d *mappingDraw) children(of *mapping.Table) (tables []mapping.Table) {
	carried := cmp.Or(of.ID, "id")
	rename := map[string]string{carried: of.Name + "_id"}
	set := mapping.Set(d.of("", "replace", "merge"))
	if of.FillOnly {
		set = mapping.MergeSet
	}
	if of.Scope == folding.RowScope {
		defer func() {
			for i := range tables {
				keepVersion(&tables[i])
			}
		}()
	}
	switch d.IntN(4) {
	case 0:
		return []mapping.Table{{Name: of.Name + "_tags", Of: of.Name, Each: foldtest.Path("tags"), Set: set, Key: []string{"tag"}, Columns: foldtest.Columns("tag: ." + d.of("", " as text") + ", n: meta index"), Parent: rename}}
	case 1:
		return []mapping.Table{{Name: of.Name + "_prices", Of: of.Name, Each: foldtest.Path("prices"), Set: set, Key: []string{"currency"}, Columns: foldtest.Columns("currency: meta key, amount: ., sku"), Parent: rename}}
	}
	items := mapping.Table{Name: of.Name + "_items", Of: of.Name, Each: foldtest.Path(d.of("items", "items", "$.items")), Set: set, Key: []string{"sku"}, Parent: rename}
	if d.one(6) {
		items.ID = "iid"
	}
	if !d.one(5) {
		items.Columns = foldtest.Columns("sku")
		for i := range d.IntN(4) {
			items.Columns = append(items.Columns, d.column(fmt.Sprint("c", i), "qty", "taxes", "v", "$.a", "^.b", ".", "^.obj.x"))
		}
		items.Rest = folding.NewColumns(d.of("", "", "add", "reject"))
	}
	if d.one(3) {
		items.When = foldtest.When(d.of("qty", "qty!=1", "$.type=a|b", "^.type!=a"))
	}
	if set == mapping.MergeSet {
		if d.one(3) {
			items.DeleteWhen = foldtest.When("qty=0|null")
		}
		if d.one(3) && of.DeleteWhen == nil {
			items.Version, items.Scope = foldtest.Path(d.of("v", "$.v")), folding.ColumnScope
		}
	}
	tables = append(tables, items)
	if d.one(2) {
		taxes := mapping.Table{Name: of.Name + "_taxes", Of: items.Name, Each: foldtest.Path("taxes"), Set: set, Key: []string{"code"}}
		if set == mapping.MergeSet && d.one(3) {
			taxes.Set = mapping.ReplaceSet
		}
		if d.one(2) {
			taxes.Columns = foldtest.Columns("code, amount: " + d.of("amount", "amount as numeric(12,2)", "^.qty"))
		}
		tables = append(tables, taxes)
	}
	return tables
}

// orders are tables whose rows go by deletes of those that they belong to, with versions.
func (d *mappingDraw) orders() []mapping.Table {
	orders := mapping.Table{Name: "orders", Key: []string{"id"}, DeleteWhen: foldtest.When("op=delete"), Version: foldtest.Path("$.v"), Scope: folding.Scope(d.of("column", "column", "row")), Columns: foldtest.Columns("id, a, c: b, ver: $.v as text")}
	items := mapping.Table{Name: "items", Of: "orders", Each: foldtest.Path("items"), Set: mapping.MergeSet, Key: []string{"sku"}, Columns: foldtest.Columns("sku, qty, a, ver: $.v as text")}
	taxes := mapping.Table{Name: "taxes", Of: "items", Each: foldtest.Path("taxes"), Set: mapping.MergeSet, Key: []string{"code"}, Columns: foldtest.Columns("code, amount, ver: $.v as text")}
	items.Parent = map[string]string{"id": "order_id"}
	if d.one(3) {
		orders.ID, items.Parent = "oid", nil
	}
	if d.one(3) {
		items.ID = "iid"
	}
	if d.one(2) {
		items.DeleteWhen = foldtest.When("qty=0")
	}
	if d.one(4) {
		taxes.Set = mapping.ReplaceSet
	}
	if d.one(4) {
		orders.Null = folding.KeepNull
	}
	return []mapping.Table{orders, items, taxes}
}

// update is an element that tables of orders take.
func (d *mappingDraw) update() string {
	var fields []string
	for _, f := range []string{`"qty":` + d.of("0", "1", "2", "null"), `"a":` + d.of("1", "2", "null"), `"taxes":[{"code":` + d.of("1", "2") + `,"amount":` + d.of("5", "6", "null") + `}]`} {
		if d.one(2) {
			fields = append(fields, f)
		}
	}
	return "{" + strings.Join(append(fields, `"sku":`+d.of(`"x"`, `"y"`)), ",") + "}"
}

// keepVersion gives a table, whose rows have the version of those above, the column that it is kept in.
func keepVersion(t *mapping.Table) {
	if t.Set != mapping.MergeSet || t.Version.Base != mapping.NoBase {
		return
	}
	if t.Columns == nil {
		t.Columns = foldtest.Columns(t.Key[0])
	}
	t.Columns = append(t.Columns, foldtest.Columns("ver: $.v as text")...)
}
