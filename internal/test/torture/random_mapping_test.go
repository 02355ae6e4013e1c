package torture

import (
	"database/sql"
	_ "embed"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/settings"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/test/foldtest"
)

// drawMapping makes a case use the tables of a config file.
func (c *randomCase) drawMapping(rnd *rand.Rand, file string) {
	for c.mapping == nil { // some have conditions that match no message
		c.messages = &mappingDraw{Rand: rnd}
		c.config = c.messages.file()
		if err := os.WriteFile(file, []byte(c.config), 0o600); err != nil {
			panic(err)
		}
		c.mapping, _ = mappingOf(file)
	}
}

// mappingOf parses the mapping of a config file.
func mappingOf(file string) (*mapping.Mapping, error) {
	s := settings.New(&settings.Env{Drivers: []sink.Driver{{Name: "SQLite"}, {Name: "Postgres"}}, FileOnly: true})
	s.File = file
	_, err := s.Load()
	return s.Mapping, err
}

// lines draws lines of a feed.
func (d *mappingDraw) lines(n int) (lines []string) {
	for range n {
		lines = append(lines, d.draw(map[bool]string{true: "fleet", false: "message"}[d.fleet]))
	}
	return lines
}

// A mappedModel is the model of a mapping, and the generated keys of its rows in the database.
type mappedModel struct {
	*foldtest.Model
	keys map[string]map[string][]string // natural key by table and generated key
	born map[string]map[string]string   // generated key by table and row
}

// checkMapping returns the differences between the tables and the model.
func (r *running) checkMapping(db *sql.DB) (faults []string, err error) {
	m := &r.mapped
	before := m.born
	m.keys, m.born = map[string]map[string][]string{}, map[string]map[string]string{}
	tables := map[string]tableRows{}
	for _, t := range m.ParentsFirst() {
		rows, err := rowsOf(db, r.postgres, t.Name)
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

// differences returns the differences between a table and the model.
func (m *mappedModel) differences(t *mapping.Table, rows tableRows) (faults []string) {
	_, owner := m.Owner(t.Name)
	left := append(m.Key(t.Name), t.ID, owner) // columns by which rows are found
	have := map[string]map[string]cell{}
	for _, row := range rows.rows {
		key := foldtest.Key(m.key(t.Name, row)...)
		if have[key] != nil {
			faults = append(faults, t.Name+" has the row "+key+" twice")
		}
		have[key] = row
	}
	return append(faults, differences(t.Name, have, m.Cells(t.Name), func(column string, want foldtest.Value, have cell) bool {
		return slices.Contains(left, column) || sameMapped(want, m.named(t, column, have))
	})...)
}

// key returns the key of a row as in messages: the parent's natural key replaces its generated key.
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

// named returns the value of a column as in messages, which refer to rows of other tables by their natural keys.
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

// identify records the generated keys of rows, and reports rows whose generated key has changed.
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

// sameMapped reports whether a database holds a value, in any column type.
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
	rounds := regexp.MustCompile(`[-+]\d\d(:\d\d)?$`).MatchString(have.text) // Postgres' timestamptz holds microseconds
	return isTime && isToo && (w.Equal(h) || rounds && w.Sub(h).Abs() <= time.Microsecond/2)
}

// instant parses a time from a timestamp column.
func instant(text string) (time.Time, bool) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999", "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999Z07", time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

// A mappingDraw draws the tables of a config file, and a feed that has values for most of them.
type mappingDraw struct {
	*rand.Rand
	fleet bool // the feed is about planes, and flights and crews that refer to them
}

func (d *mappingDraw) of(texts ...string) string { return texts[d.IntN(len(texts))] }
func (d *mappingDraw) one(in int) bool           { return d.IntN(in) == 0 }

// messages has the rules for drawing texts. It explains its syntax.
//
//go:embed testdata/messages.txt
var messages string

// rules has the alternatives of each rule.
var rules = func() map[string][]string {
	all := map[string][]string{}
	for line := range strings.Lines(messages) {
		name, becomes, ok := strings.Cut(strings.TrimSpace(line), "= ")
		if !ok || name[0] == '#' {
			continue
		}
		for text := range strings.SplitSeq(becomes, " | ") {
			times := 1
			if n, of, ok := strings.Cut(text, "× "); ok {
				times, _ = strconv.Atoi(n)
				text = of
			}
			name := strings.TrimSpace(name)
			all[name] = append(all[name], slices.Repeat([]string{text}, times)...)
		}
	}
	return all
}()

var (
	named = regexp.MustCompile(`<(\w+)(?:([/*])(\d+))?>`)
	tidy  = strings.NewReplacer(",}", "}", ",]", "]")
)

// draw draws an alternative of a rule.
func (d *mappingDraw) draw(rule string) string {
	text := named.ReplaceAllStringFunc(d.of(rules[rule]...), func(name string) (text string) {
		m, times := named.FindStringSubmatch(name), 1
		switch n, _ := strconv.Atoi(m[3]); m[2] {
		case "*":
			times = d.IntN(n)
		case "/":
			times = max(0, 1-d.IntN(n))
		}
		for range times {
			text += d.draw(m[1])
		}
		return text
	})
	return tidy.Replace(text)
}

// A drawnTable is a table of a config file.
type drawnTable struct {
	name     string
	settings []string // "" means none
	columns  []string // nil: all fields, with their names
	named    bool     // other tables may refer to its rows
}

func (t *drawnTable) set(settings ...string)   { t.settings = append(t.settings, settings...) }
func (t *drawnTable) column(columns ...string) { t.columns = append(t.columns, columns...) }

// has reports whether a setting has a prefix.
func (t *drawnTable) has(setting string) bool {
	return slices.ContainsFunc(t.settings, func(s string) bool { return strings.HasPrefix(s, setting) })
}

func (t *drawnTable) String() string {
	all := slices.DeleteFunc(slices.Clone(t.settings), func(s string) bool { return s == "" })
	if t.columns != nil {
		all = append(all, "columns: {"+strings.Join(t.columns, ", ")+"}")
	}
	return "  " + t.name + ": {" + strings.Join(all, ", ") + "}\n"
}

// maybe returns text or "".
func (d *mappingDraw) maybe(in int, text string) string {
	if d.one(in) {
		return text
	}
	return ""
}

// file returns a config file.
func (d *mappingDraw) file() string {
	var tables []drawnTable
	switch d.fleet = false; {
	case d.one(4):
		tables = d.orders()
	case d.one(3):
		d.fleet, tables = true, d.fleetTables()
	default:
		for i := range 1 + d.IntN(3) {
			t := d.table(fmt.Sprint("t", i))
			if tables = append(tables, t); !d.one(3) {
				tables = append(tables, d.children(&t)...)
			}
		}
		if d.one(8) { // elements without a parent row
			tables = append(tables, drawnTable{name: "loose", settings: []string{"each: " + d.of("items", "tags", "obj.y"), "key: k"}, columns: []string{"k: [sku as text, . as text]", "id: $.id", "parent: ^.type"}})
		}
	}
	if d.one(2) {
		d.references(tables)
	}
	d.Shuffle(len(tables), func(i, j int) { tables[i], tables[j] = tables[j], tables[i] })
	text := d.maybe(3, "ignore: "+d.of("type=c", "a=x", "{type: null}")+"\n") + d.maybe(3, "max_each: "+d.of("1", "2", "3", "4")+"\n") + "tables:\n"
	for _, t := range tables {
		text += t.String()
	}
	return text
}

// references may add a foreign key to another table.
func (d *mappingDraw) references(tables []drawnTable) {
	for _, i := range d.Perm(len(tables)) {
		for _, j := range d.Perm(len(tables)) {
			from, to := &tables[i], &tables[j]
			if i == j || !to.named || d.fleet && from.name == "planes" || from.has("of: ") || from.columns == nil || from.has("each: ") {
				continue
			}
			from.column("names: {from: " + d.of("ref", "$.ref", "ref", "id") + ", references: " + to.name + "}")
			return
		}
	}
}

// table draws a table with a row per message. Which numbers are equal as keys depends on the column's type.
func (d *mappingDraw) table(name string) drawnTable {
	t := drawnTable{name: name, settings: []string{d.maybe(3, "id: sid")}}
	if !d.one(3) {
		t.set("when: " + d.draw("condition"))
	}
	key := "id"
	if d.one(4) {
		t.set("row: " + d.of("obj", "obj", "obj.y"))
		key = d.of("x", "$.id")
	} else if d.one(4) {
		d.fold(&t)
		return t
	}
	t.column("id: " + key + " as text")
	if t.named = !d.one(5); !t.named {
		t.set("key: [id, k2]")
		t.column("k2: " + d.of("a as text", "b as text", "v as text", "{value: 7}"))
	}
	for i := range d.IntN(5) {
		t.column(fmt.Sprintf("c%d: ", i) + d.source("a", "b", "c", "d", "obj.x", "obj.y.z", "list[0]", "list[1].n", "$.a", "type", ".", "x", "y.z"))
	}
	t.set(d.maybe(3, "type: text"), d.of("", "", "unknown_fields: ignore", "unknown_fields: add", "unknown_fields: reject"))
	d.fold(&t)
	return t
}

// fleetTables draws tables whose rows refer to rows of another one, which messages also delete.
func (d *mappingDraw) fleetTables() []drawnTable {
	table := func(name, types string, more ...string) drawnTable {
		t := drawnTable{name: name, settings: []string{"when: {type: " + types + "}", "delete_when: op=delete"}, columns: append([]string{"id: as text", "n"}, more...), named: true}
		if k := d.IntN(6); k == 0 {
			t.set("version_field: $.v")
		} else if k == 1 && name != "crews" { // its members would need the column, too
			t.set("version_field: $.v", "version_scope: row")
			t.column("ver: $.v as text")
		} else if k == 2 {
			t.set("null: keep")
		}
		return t
	}
	planes := table("planes", "[plane, both]")
	planes.set(d.maybe(2, "id: pid"))
	return []drawnTable{planes, table("flights", "[flight, both]", "reg: {from: ref, references: planes}"), table("crews", "crew"),
		{name: "members", settings: []string{"of: crews", "each: items", "key: sku", "parent: {id: crew}", "set: " + d.of("replace", "merge")}, columns: []string{"sku: as text", "reg: {from: ref, references: planes}"}}}
}

// fold draws the rules of a fold. A version of whole rows needs a column.
func (d *mappingDraw) fold(t *drawnTable) {
	switch d.IntN(6) {
	case 0:
		t.set("fill_only: true")
		return
	case 1:
		t.set("version_field: v")
	case 2:
		if t.set("version_scope: row"); t.columns == nil {
			t.set("version_field: v")
		} else {
			t.set("version_field: $.v")
			t.column("ver: $.v as text")
		}
	}
	t.set(d.maybe(3, "delete_when: op=delete"), d.maybe(4, "null: keep"))
}

// source draws the source of a column's values.
func (d *mappingDraw) source(paths ...string) string {
	var all []string
	for range 1 + d.IntN(2) {
		from := "from: '" + d.of(paths...)
		if d.one(2) {
			from += " as " + d.of("text", "integer", "real", "numeric", "numeric(12,2)", "numeric(3,1)", "boolean", "json", "timestamp", "timestamp", "timestamp_ms", "timestamp_us", "timestamp_ns", "date", "date_days", "uuid", "bytes")
		}
		from += "'"
		switch d.IntN(8) {
		case 0:
			from = "value: " + d.of("webshop", "7", "null", "true")
		case 1:
			from = "meta: " + d.of("line", "offset")
		}
		when := d.maybe(4, ", when: "+d.draw("condition"))
		all = append(all, "{"+from+when+"}")
		if strings.Contains(from, " as json") { // whether JSON equals a value of another type depends on the column
			return all[len(all)-1]
		}
		if when == "" && from[0] != 'f' { // there is always a value
			break
		}
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// children draws tables for the elements of arrays in the rows of another.
func (d *mappingDraw) children(of *drawnTable) (tables []drawnTable) {
	set, byRow := d.of("", "set: replace", "set: merge"), of.has("version_scope: row")
	if set == "set: merge" && of.has("version_field") && of.has("delete_when") {
		set = "set: replace" // a late delete could not tell what is left of updates
	}
	if of.has("fill_only") {
		set = "set: merge"
	}
	child := func(name, above, each, key string, columns ...string) drawnTable {
		t := drawnTable{name: of.name + name, settings: []string{"of: " + above, "each: " + each, "key: " + key, set}, columns: columns}
		if above == of.name {
			t.set("parent: {" + map[bool]string{true: "sid", false: "id"}[of.has("id: ")] + ": " + of.name + "_id}")
		}
		return t
	}
	defer func() {
		for i := range tables { // rows have their parent's version, and store it in a column
			if t := &tables[i]; byRow && t.has("set: merge") && !t.has("version_field") {
				t.column("ver: $.v as text")
			}
		}
	}()
	switch d.IntN(4) {
	case 0:
		return []drawnTable{child("_tags", of.name, "tags", "tag", "tag: . as text", "n: {meta: index}")}
	case 1:
		return []drawnTable{child("_prices", of.name, "prices", "currency", "currency: {meta: key}", "amount: .", "sku")}
	}
	items := child("_items", of.name, d.of("items", "items", "$.items"), "sku")
	items.set(d.maybe(6, "id: iid"), d.maybe(3, "when: "+d.of("{qty: {present: true}}", "{qty: {not: 1}}", "{$.type: [a, b]}", "{^.type: {not: a}}")))
	if byRow || !d.one(5) {
		items.column("sku: as text")
		for i := range d.IntN(4) {
			items.column(fmt.Sprintf("c%d: ", i) + d.source("qty", "taxes", "v", "$.a", "^.b", ".", "^.obj.x"))
		}
		items.set(d.of("", "", "unknown_fields: add", "unknown_fields: reject"))
	}
	if set == "set: merge" {
		items.set(d.maybe(3, "delete_when: {qty: [0, null]}"))
		if !of.has("delete_when") {
			items.set(d.maybe(3, "version_field: "+d.of("v", "$.v")))
		}
		if d.one(3) || items.has("delete_when") && (items.has("version_field") || of.has("version_field")) {
			set = "set: replace"
		}
	}
	if tables = append(tables, items); d.one(2) {
		taxes := child("_taxes", items.name, "taxes", "code")
		if byRow || d.one(2) {
			taxes.column("code: as text", "amount: "+d.of("amount", "'amount as numeric(12,2)'", "^.qty"))
		}
		tables = append(tables, taxes)
	}
	return tables
}

// orders draws tables whose rows are updates below updates: rows are deleted with their parents, or have versions.
func (d *mappingDraw) orders() []drawnTable {
	id := d.maybe(3, "id: oid")
	rename := "parent: {id: order_id}"
	if id != "" {
		rename = ""
	}
	rule, gone, set := "delete_when: op=delete", d.maybe(2, "delete_when: qty=0"), "set: "+d.of("merge", "merge", "merge", "replace")
	if d.one(2) {
		rule = "version_field: $.v, version_scope: " + d.of("column", "column", "row")
		if set == "set: merge" {
			gone = ""
		}
	}
	return []drawnTable{
		{name: "orders", settings: []string{rule, id, d.maybe(4, "null: keep")}, columns: []string{"id: as text", "a", "c: b", "ver: $.v as text"}},
		{name: "items", settings: []string{"of: orders", "each: items", "set: merge", "key: sku", rename, d.maybe(3, "id: iid"), gone}, columns: []string{"sku: as text", "qty", "a", "ver: $.v as text"}},
		{name: "taxes", settings: []string{"of: items", "each: taxes", "key: code", set}, columns: []string{"code: as text", "amount", "ver: $.v as text"}},
	}
}
