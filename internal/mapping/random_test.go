package mapping_test

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/foldtest"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink/sinktest"
)

// TestMapping_Random: random mappings of random feeds, folded in batches that end anywhere by runs
// that end anywhere, make the tables and reject the lines that the plain model of a mapping does.
func TestMapping_Random(t *testing.T) {
	n := uint64(2000)
	if testing.Short() {
		n = 300
	}
	seen := map[string]int{}
	sinktest.Seeds(t, n, func(t *testing.T, rnd *rand.Rand) {
		d := &draw{rnd}
		m, textTypes := d.mapping(), rnd.IntN(2) == 0
		lines := make([]string, 1+rnd.IntN(1+rnd.IntN(60)))
		for i := range lines {
			lines[i] = d.message()
		}
		model := foldtest.NewModel(&m, textTypes)
		var want []string
		for i, l := range lines {
			outcome, err := model.Apply(l, int64(i+1), int64(10*i))
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
	for what, least := range map[string]int{"taken": 10, "rejected": 10, "ignored": 1, "no table": 1, "rows": 10, "rows of sets": 2} {
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
				fmt.Fprintf(&b, " [%s as %s value %s meta %s when %+v]", s.From, s.As, s.Value, s.Meta, s.When)
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

type draw struct{ *rand.Rand }

func (d *draw) of(texts ...string) string { return texts[d.IntN(len(texts))] }
func (d *draw) one(in int) bool           { return d.IntN(in) == 0 }

// message is a line of a feed.
func (d *draw) message() string {
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
		add("items", d.list(d.item))
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
	forgets := of.DeleteWhen != nil && of.Version.Base != mapping.NoBase
	if of.FillOnly {
		set = mapping.MergeSet
	} else if forgets {
		set = mapping.ReplaceSet
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
			items.Version = path(d.of("v", "$.v"))
		}
	}
	tables = append(tables, items)
	if d.one(2) {
		taxes := mapping.Table{Name: of.Name + "_taxes", Of: items.Name, Each: path("taxes"), Set: set, Key: []string{"code"}}
		if items.DeleteWhen != nil && items.Version.Base != mapping.NoBase || set == mapping.MergeSet && d.one(3) {
			taxes.Set = mapping.ReplaceSet
		}
		if d.one(2) {
			taxes.Columns = columns("code, amount: " + d.of("amount", "amount as numeric(12,2)", "^.qty"))
		}
		tables = append(tables, taxes)
	}
	return tables
}

// mapDB is a database of a few maps that a plan's rows are folded into.
type mapDB struct {
	t       *testing.T
	mapping *mapping.Mapping
	limits  schema.Limits
	model   *foldtest.Model
	tables  []mapTable
	plan    *mapping.Plan
	names   *feed.Names
	scan    *feed.Scanner
	scratch *mapping.Scratch
	folders fold.Folders
	set     *fold.Set
}

type mapTable struct {
	known  schema.Table
	rows   map[string]map[string]string // raw values by key and column; none is NULL
	states map[string][]byte
	names  []string
}

func newMapDB(t *testing.T, m *mapping.Mapping, textTypes bool) *mapDB {
	db := &mapDB{t: t, mapping: m, limits: schema.Limits{Untyped: true, TextTypes: textTypes}}
	db.begin()
	return db
}

// begin starts a run.
func (db *mapDB) begin() {
	db.names = &feed.Names{}
	var err error
	if db.plan, err = mapping.Compile(db.mapping, db.names, db.limits); err != nil {
		db.t.Fatal(describe(db.mapping), err)
	}
	db.scan, db.scratch = feed.NewScanner(db.names), db.plan.NewScratch()
	db.scratch.Source = "source"
	if db.set == nil {
		db.set = fold.NewSet(db.plan.Tables())
	}
	var folders fold.Folders
	for i := range db.plan.Tables() {
		if len(db.tables) <= i {
			db.tables = append(db.tables, mapTable{known: schema.Table{Name: db.plan.Table(i).Name}, rows: map[string]map[string]string{}, states: map[string][]byte{}})
		}
		known := db.tables[i].known.Clone()
		if len(db.folders) > 0 {
			known = db.folders[i].Table()
			known = known.Stored()
		}
		if err := db.plan.Fit(i, &known); err != nil {
			db.t.Fatal(err)
		}
		o := db.plan.Options(i)
		o.Log, o.MaxColumns = slog.New(slog.DiscardHandler), 1000
		folders = append(folders, fold.NewFolder(db.names, known, o))
	}
	db.folders = folders
	if err := folders.Nest(db.plan); err != nil {
		db.t.Fatal(describe(db.mapping), err)
	}
}

// sync folds lines, and returns what became of each.
func (db *mapDB) sync(lines []string, rnd *rand.Rand) (outcomes []string) {
	for i, text := range lines {
		outcomes = append(outcomes, db.line(text, fold.Place{Line: int64(i + 1), Offset: int64(10 * i)}))
		if i == len(lines)-1 || rnd.IntN(4) == 0 {
			db.folders.Seal(db.set)
			for i, b := range db.set.Batches {
				db.tables[i].flush(db.t, b)
				db.take(b)
			}
			db.set.Reset()
			if rnd.IntN(8) == 0 {
				db.begin()
			}
		}
	}
	return outcomes
}

func (db *mapDB) line(text string, at fold.Place) string {
	var l feed.Line
	if l.Scan(db.scan, nil, []byte(text)); l.Err != nil {
		db.t.Fatal(l.Err)
	}
	rows, fate, err := db.plan.Map(&l, at, db.scratch)
	var bad *feed.Error
	switch {
	case errors.As(err, &bad):
		return "rejected"
	case err != nil:
		db.t.Fatal(err)
	case fate == mapping.Ignored:
		return "ignored"
	case fate == mapping.NoTable:
		return "no table"
	}
	if _, err := db.folders.Add(db.set, rows, at); errors.As(err, &bad) {
		return "rejected"
	} else if err != nil {
		db.t.Fatal(err)
	}
	return "taken"
}

// take removes the rows that belong to one that a batch removes, but for those that come later.
func (db *mapDB) take(of *fold.Batch) {
	for i := range db.set.Batches {
		above := db.above(i, of)
		if above == nil {
			continue
		}
		for _, r := range of.Sorted() {
			if !r.Deleted && !r.Replaces {
				continue
			}
			for key, row := range db.tables[i].rows {
				var values [][]byte
				for _, name := range above {
					values = append(values, []byte(row[name]))
				}
				if string(fold.AppendKey(nil, &of.Table, values)) == string(r.Key) {
					delete(db.tables[i].rows, key)
				}
			}
		}
	}
}

// above are the columns of a table that have the key of the row of a batch that its own belong to, at
// any level; nil where they belong to none.
func (db *mapDB) above(table int, of *fold.Batch) (names []string) {
	for parent, names := db.plan.Parent(table); parent >= 0; parent, _ = db.plan.Parent(parent) {
		if db.set.Batches[parent] == of {
			return names[:len(of.Table.Key)]
		}
	}
	return nil
}

func (t *mapTable) flush(tt *testing.T, b *fold.Batch) {
	rows := b.Sorted()
	if !b.Versioned() {
		for _, r := range rows {
			t.write(b, r)
		}
		return
	}
	resolver := fold.NewResolver(b, t.names, &b.Table)
	for _, r := range rows {
		key := keyOf(b, r)
		row, exists := t.rows[key]
		was := fold.Stored{Exists: exists && (t.states[key] != nil || b.Scope == fold.RowScope), State: t.states[key]}
		if b.Version >= 0 && b.Scope == fold.RowScope {
			if v, set := row[b.Table.Columns[b.Version].Name]; set {
				was.Version = feed.AppendText(nil, []byte(v), feed.KindOf([]byte(v)))
			}
		}
		res, err := resolver.Resolve(r, was)
		if err != nil {
			tt.Fatal(err)
		}
		if !res.Unchanged {
			t.write(resolver.Batch(), &res.Row)
		}
		if res.State != nil {
			t.states[key] = res.State
		}
	}
	t.names = resolver.Names()
}

// keyOf is the key of a row for all runs: [fold.Row.Key] has its parts in the order of the columns,
// which may be another one when a table is read again.
func keyOf(b *fold.Batch, r *fold.Row) string {
	parts := make([]string, len(b.Table.Key))
	for part, k := range b.Table.Key {
		raw := b.Value(r, k)
		parts[part] = string(feed.AppendText(nil, raw, feed.KindOf(raw)))
	}
	return fmt.Sprintf("%q", parts)
}

// write does what a driver does with a row.
func (t *mapTable) write(b *fold.Batch, r *fold.Row) {
	key := keyOf(b, r)
	row, exists := t.rows[key]
	if r.Deleted {
		delete(t.rows, key)
		return
	}
	if !exists || r.Replaces {
		exists, row = false, map[string]string{}
		t.rows[key] = row
	}
	for i, c := range b.Table.Columns {
		raw := b.Value(r, i)
		_, set := row[c.Name]
		switch {
		case raw == nil && b.Initial(r, i): // a late delete took it
			delete(row, c.Name)
		case raw == nil, c.Key && exists, b.FillOnly && exists && set:
		case raw[0] == 'n':
			delete(row, c.Name)
		default:
			row[c.Name] = string(raw)
		}
	}
}

// show returns the rows of a table as the model does; those of sets are exploded.
func (db *mapDB) show(name string) []string {
	table := 0
	for db.plan.Table(table).Name != name {
		table++
	}
	out := []string{}
	if db.plan.Table(table).Of == "" || db.plan.Table(table).Set == mapping.MergeSet {
		for _, row := range db.tables[table].rows {
			cells := map[string]foldtest.Value{}
			for c, raw := range row {
				cells[inModel(c)] = foldtest.MustParse(raw)
			}
			out = append(out, foldtest.Show(cells, db.model.Key(name)))
		}
	} else {
		for _, row := range db.exploded(table) {
			out = append(out, row)
		}
	}
	slices.Sort(out)
	return out
}

// inModel is the model's name for a column: one that no database has, of a key, has another there.
func inModel(column string) string {
	if !mapping.Hidden(column) {
		return column
	}
	name, table, _ := strings.Cut(column[1:], " of ")
	return foldtest.KeyColumn(table, name)
}

// exploded are the rows of a table that are in sets, by their keys.
func (db *mapDB) exploded(table int) map[string]string {
	top := table
	for db.plan.SetColumn(top) == "" {
		top, _ = db.plan.Parent(top)
	}
	parent, _ := db.plan.Parent(top)
	rows := map[string]string{}
	text := func(of int, c *fold.Change) string {
		parts := make([]string, len(db.plan.Options(of).Key))
		for i, k := range db.plan.Options(of).Key {
			for _, f := range c.Fields {
				if f.Name == db.names.Number(k) {
					parts[i] = string(feed.AppendText(nil, f.Value, f.Kind))
				}
			}
		}
		return fmt.Sprintf("%q", parts)
	}
	explode := db.plan.Exploder(text)
	for _, row := range db.tables[parent].rows {
		set, ok := row[db.plan.SetColumn(top)]
		if !ok {
			continue
		}
		var key [][]byte
		for _, k := range db.plan.Options(parent).Key {
			key = append(key, []byte(row[k]))
		}
		if err := explode(top, key, []byte(set), func(r *mapping.Row) error {
			if r.Table != table {
				return nil
			}
			cells := map[string]foldtest.Value{}
			for _, f := range r.Fields {
				name := ""
				if f.Name >= 0 {
					name = db.names.Name(f.Name)
				} else {
					name = string(r.Unnumbered[^f.Name])
				}
				cells[inModel(name)] = foldtest.MustParse(string(f.Value))
			}
			rows[text(table, &r.Change)] = foldtest.Show(cells, db.model.Key(db.plan.Table(table).Name))
			return nil
		}); err != nil {
			db.t.Fatal(err)
		}
	}
	return rows
}
