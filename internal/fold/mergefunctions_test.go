package fold_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/merge"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/test/foldtest"
	"github.com/weirsync/weir/internal/test/logtest"
	"github.com/weirsync/weir/internal/test/testcheck"
)

var mergeFunctions = map[string]merge.Function{"sum": merge.Sum, "real": merge.Sum, "own": merge.Sum, "min": merge.Min, "max": merge.Max, "at": merge.Max,
	"day": merge.Min, "obj": merge.Patch, "first": merge.First, "dflt": merge.First}

var mergeDefaults = map[string]string{"real": "0", "obj": "{}", "dflt": `"d"`}

// mergeTable has a column for each function.
func mergeTable(judged bool) schema.Table {
	return schema.Table{Name: "t", Exists: true, HasConstraints: judged, Key: []int{0}, Columns: []schema.Column{{Name: "id", Type: schema.Text, Key: true}, {Name: "last", Type: schema.Text},
		{Name: "v", Type: schema.Text}, {Name: "sum", Type: schema.Number}, {Name: "real", Type: schema.Number, Default: "'0'::numeric"}, {Name: "min", Type: schema.Text}, {Name: "max", Type: schema.Any},
		{Name: "at", Type: schema.Instant}, {Name: "day", Type: schema.Day}, {Name: "obj", Type: schema.Text, Default: "'{}'"}, {Name: "first", Type: schema.Text}, {Name: "dflt", Type: schema.Text, Default: "'d'"}}}
}

// A modelRow is a row of the plain model: raw JSON by column; a missing column is NULL.
type modelRow struct {
	cells    map[string]string
	versions map[string]int // by column
	version  int            // of the row
}

// apply applies a message to the plain model, field by field.
func (r *modelRow) apply(fields []mergeField, version int, scope fold.Scope) {
	newer := scope != fold.RowScope || version >= r.version
	r.version = max(r.version, version)
	for _, f := range fields {
		have, has := r.cells[f.name]
		function := mergeFunctions[f.name]
		switch {
		case function == merge.First:
			if !has && f.value != "null" {
				r.cells[f.name] = f.value
			}
			continue
		case function == merge.Last && (!newer || scope == fold.ColumnScope && version < r.versions[f.name]):
			continue
		case f.value == "null":
			delete(r.cells, f.name)
		case function == merge.Last:
			r.cells[f.name] = f.value
		case function == merge.Sum:
			sum, _ := new(big.Rat).SetString(strings.Trim(f.value, `"`))
			if has {
				was, _ := new(big.Rat).SetString(have)
				sum.Add(sum, was)
			}
			digits, _ := sum.FloatPrec()
			r.cells[f.name] = sum.FloatString(digits)
		case function == merge.Patch:
			r.cells[f.name] = foldtest.Patched(have, f.value)
		case !has, function == merge.Min && compareValues(f.value, have) < 0, function == merge.Max && compareValues(f.value, have) > 0:
			r.cells[f.name] = f.value
		}
		r.versions[f.name] = max(r.versions[f.name], version)
	}
}

// compareValues compares numbers, times and other texts.
func compareValues(a, b string) int {
	a, b = strings.Trim(a, `"`), strings.Trim(b, `"`)
	if x, err := time.Parse(time.RFC3339, a); err == nil {
		y, _ := time.Parse(time.RFC3339, b)
		return x.Compare(y)
	}
	x, xok := new(big.Rat).SetString(a)
	y, yok := new(big.Rat).SetString(b)
	switch {
	case xok && yok:
		return x.Cmp(y)
	case xok:
		return -1
	case yok:
		return 1
	}
	return strings.Compare(a, b)
}

type mergeField struct{ name, value string }

type mergeMessage struct {
	id      string
	op      fold.Op
	version int
	fields  []mergeField
	bad     bool
}

func (m *mergeMessage) line() string {
	all := []string{fmt.Sprintf(`"id":%q,"v":%d`, m.id, m.version)}
	for _, f := range m.fields {
		all = append(all, fmt.Sprintf("%q:%s", f.name, f.value))
	}
	return "{" + strings.Join(all, ",") + "}"
}

func randomMergeMessage(rnd *rand.Rand, scope fold.Scope) (m mergeMessage) {
	pick := func(of ...string) string { return of[rnd.IntN(len(of))] }
	m = mergeMessage{id: pick("a", "a", "b", "c"), version: 1 + rnd.IntN(9)}
	if k := rnd.IntN(12); k == 0 && scope == "" {
		m.op = fold.Delete
		return m
	} else if k == 1 && scope == "" {
		m.op = fold.Replace
	}
	object := func() string {
		member := func() string {
			return fmt.Sprintf("%q:%s", pick("x", "y", "z"), pick("1", "null", "null", `{"p":1}`, `{"q":null,"r":[1]}`, `{"p":{"s":2}}`, `"t"`, "[1]"))
		}
		return "{" + strings.Join([]string{member(), member()}[:rnd.IntN(3)], ",") + "}"
	}
	number := func() string {
		return pick("1", "-1", "2.5", "0.1", "1e3", "-0", "9223372036854775807", "-9223372036854775808", "12345678901234567890.5", "1.50", "0.000001")
	}
	times := []string{`"2026-01-01T00:00:00Z"`, `"2026-01-01T01:00:00+02:00"`, `"2026-01-01T00:00:00.5Z"`, `"2025-12-31T23:30:00-01:00"`, `"2026-01-01T01:30:00+01:00"`}
	values := map[string]func() string{"last": func() string { return pick("1", `"x"`) }, "sum": func() string { return pick(number(), number(), `"7"`) }, "real": number, "own": number,
		"min": func() string { return pick(number(), "1.0", "1e0", `"9"`, `"10"`, `"abc"`, `"b"`) }, "max": func() string { return pick(number(), "1.0", `"1e3"`, `"9"`, `"10"`, `"abc"`) },
		"at": func() string { return pick(times...) }, "day": func() string { return pick(`"2026-01-01"`, `"2025-06-30"`, `"2026-02-01"`) }, "obj": func() string { return pick(object(), object(), object(), "[1]") },
		"first": func() string { return pick(`"1"`, `"2"`) }, "dflt": func() string { return pick(`"1"`, `"2"`) }}
	bad := map[string]string{"sum": pick(`"x"`, "true", "[]", "1e200000"), "own": pick(`"7"`, "{}", "1e-20000"), "obj": pick("1", `"{}"`, "true"), "at": `"noon"`, "day": `"2026-13-01"`, "max": pick("[1]", "true")}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		switch f := mergeFunctions[name]; {
		case rnd.IntN(3) > 0, scope != "" && (f == merge.First || f == merge.Patch):
			continue
		}
		value := values[name]()
		if rnd.IntN(8) == 0 {
			value = "null"
		}
		if b, ok := bad[name]; ok && rnd.IntN(30) == 0 {
			value, m.bad = b, true
		}
		m.fields = append(m.fields, mergeField{name, value})
	}
	return m
}

// TestFold_MergeFunctions folds random messages in batches of random sizes, and in parts of their messages. A
// database of a few maps merges relative values as a driver must. The result must equal the plain model's after each
// message: rows, rejects, and one type for the column that weir added.
func TestFold_MergeFunctions(t *testing.T) {
	var merged, kept, rejected int
	sinktest.Seeds(t, 300, func(t *testing.T, rnd *rand.Rand) {
		scope := []fold.Scope{"", "", "", fold.ColumnScope, fold.RowScope}[rnd.IntN(5)]
		model, messages, rejects, order := map[string]*modelRow{}, []mergeMessage(nil), []int(nil), []string(nil)
		for i := range 1 + rnd.IntN(60) {
			m := randomMergeMessage(rnd, scope)
			if messages = append(messages, m); m.bad {
				rejects = append(rejects, i)
				continue
			}
			order = append(order, m.line())
			if m.op != fold.Upsert {
				delete(model, m.id)
			}
			if m.op == fold.Delete {
				continue
			}
			r := model[m.id]
			if r == nil {
				r = &modelRow{maps.Clone(mergeDefaults), map[string]int{}, 0}
				for _, f := range m.fields { // an inserted row has what the message sets
					delete(r.cells, f.name)
					if f.value == "null" && mergeFunctions[f.name] == merge.First {
						r.cells[f.name] = mergeDefaults[f.name] // the message does not set it
						if r.cells[f.name] == "" {
							delete(r.cells, f.name)
						}
					}
				}
				model[m.id] = r
			}
			r.apply(m.fields, m.version, scope)
		}
		rejected += len(rejects)
		want, marks := map[string]string{}, ""
		for id, r := range model {
			want[id] = showRow(r.cells)
		}
		for n, cut := range []int{1, len(messages), 0, 0, 0} {
			db := &mergeDB{mapDB: newMapDB()}
			if n%2 == 1 {
				db.apart = rnd
			}
			got := db.sync(t, messages, scope, func() int {
				if cut > 0 {
					return cut
				}
				return 1 + rnd.IntN(9)
			})
			if db.marks != marks && n > 0 && scope == "" {
				t.Fatalf("in batches of %d the types are %s, and were %s", cut, db.marks, marks)
			}
			marks = db.marks
			have := map[string]string{}
			for id, row := range db.rows {
				have[id] = showRow(row)
			}
			if !maps.Equal(have, want) || !slices.Equal(got, rejects) {
				t.Fatalf("scope %q\n%s\nin batches of %d, apart %v, become\n%v, rejected %v\nand should be\n%v, rejected %v", scope, strings.Join(order, "\n"), cut, db.apart != nil, have, got, want, rejects)
			}
			merged, kept = merged+db.merged, kept+db.kept
		}
	})
	if min(merged, kept, rejected) < 100 {
		t.Errorf("did not exercise: %d values merged with the database's, which kept %d, %d rejected", merged, kept, rejected)
	}
}

// showRow returns a row as plain text.
func showRow(row map[string]string) string {
	var out []string
	for _, c := range slices.Sorted(maps.Keys(row)) {
		if c != "id" && c != "v" {
			out = append(out, c+"="+row[c])
		}
	}
	return strings.Join(out, " ")
}

// A mergeDB is a database with one table that has merge functions.
type mergeDB struct {
	mapDB
	marks        string // of the table's columns
	merged, kept int    // number of values merged with the database's, and of these how many left it unchanged
}

func (db *mergeDB) sync(t *testing.T, messages []mergeMessage, scope fold.Scope, size func() int) (rejects []int) {
	o := fold.Options{Key: []string{"id"}, Rules: fold.Rules{UnknownFields: fold.AddUnknown, MaxColumns: 9, Merge: maps.Clone(mergeFunctions)}, Log: logtest.New(t)}
	if scope != "" {
		o.Version, o.Scope = "v", scope
		for name, f := range o.Merge {
			if f == merge.First || f == merge.Patch {
				delete(o.Merge, name)
			}
		}
	}
	table := mergeTable(db.apart != nil)
	testcheck.NoError(t, fold.CheckMerge(&table, o))
	names := &feed.Names{}
	scan, mapper := feed.NewScanner(names), sinktest.NewMapper(names, o, "")
	f, b := fold.NewFolder(names, table, o), &fold.Batch{}
	for i, left := 0, size(); i < len(messages); i++ {
		var line feed.Line
		line.Scan(scan, nil, []byte(messages[i].line()))
		testcheck.NoError(t, line.Err)
		c := mapper.Map(&line)
		c.Op = messages[i].op
		var bad *feed.Error
		if err := f.Add(b, &c, fold.Place{Line: int64(i)}); errors.As(err, &bad) {
			rejects = append(rejects, i)
		} else {
			testcheck.NoError(t, err)
		}
		if left--; left == 0 || i == len(messages)-1 {
			f.Seal(b)
			db.flush(t, b, &table, func(b *fold.Batch, r *fold.Row) { db.write(t, b, r) })
			b.Reset()
			left = size()
		}
	}
	grown := f.Table()
	db.marks = grown.Marks()
	return rejects
}

// write does what a driver does for a row.
func (db *mergeDB) write(t *testing.T, b *fold.Batch, r *fold.Row) {
	row, exists := db.rows[string(r.Key)]
	if r.Deleted {
		delete(db.rows, string(r.Key))
		return
	}
	inserts := !exists || r.Replaces
	if inserts {
		row = maps.Clone(mergeDefaults)
		db.rows[string(r.Key)] = row
	}
	for i, c := range b.Table.Columns {
		raw := b.Value(r, i)
		switch {
		case c.Key || raw == nil || b.Initial(r, i) && inserts: // it has the default
		case raw[0] == 'n':
			delete(row, c.Name)
		default:
			var have []byte
			if old, set := row[c.Name]; set && !inserts {
				have = feed.Text(nil, []byte(old), feed.KindOf([]byte(old)))
			}
			merged, ok := b.AppendMerged(nil, r, i, have)
			if !ok {
				t.Fatalf("%s: %s cannot be merged into %s", c.Name, raw, have)
			}
			if have != nil && b.Relative(r, i) {
				db.merged++
			}
			if merged == nil {
				db.kept++
				continue
			}
			row[c.Name] = string(bytes.Clone(merged))
		}
	}
}

func mergeFolder(t *testing.T, table schema.Table, change func(*fold.Options)) *sinktest.Folder {
	o := fold.Options{Key: []string{"id"}, Rules: fold.Rules{UnknownFields: fold.AddUnknown, MaxColumns: 9}, Log: logtest.New(t)}
	change(&o)
	return sinktest.NewFolder(table, o, "op=d")
}

// TestFold_SumsNeedNoWiderColumn: the type that a sum needs depends on the row in the database, so a column that weir
// made gets that type with the first number.
func TestFold_SumsNeedNoWiderColumn(t *testing.T) {
	f := mergeFolder(t, schema.Table{Name: "t"}, func(o *fold.Options) { o.Merge = map[string]merge.Function{"n": merge.Sum} })
	testcheck.NoError(t, f.Fold(&fold.Batch{}, []byte(`{"id":1,"n":1,"m":1}`), fold.Place{}))
	for _, c := range f.Table().Columns {
		if want := map[string]schema.Type{"id": schema.Int, "n": schema.Number, "m": schema.Int}[c.Name]; c.Type != want {
			t.Errorf("%s is %s, want %s", c.Name, c.Type, want)
		}
	}
}

// TestFold_MergeRefused: a merge function that cannot work ends the run with a reason.
func TestFold_MergeRefused(t *testing.T) {
	user := schema.Table{Name: "t", Exists: true, Key: []int{0}, Columns: []schema.Column{{Name: "id", Type: schema.Text, Key: true}, {Name: "n", Type: schema.Int, Default: "5"},
		{Name: "z", Type: schema.Int, Default: "0"}, {Name: "net", Type: schema.External, Decl: "inet"}, {Name: "j", Type: schema.JSON, Decl: "jsonb"}, {Name: "local", Type: schema.External, ValueRules: schema.ValueRules{HoldsTime: true}, Decl: "timestamp"},
		{Name: "made", Type: schema.Int, Generated: true}}}
	for _, c := range []struct {
		column  string
		f       merge.Function
		version string
		want    string // in the error
	}{
		{"n", merge.Sum, "", "has the default 5"},
		{"n", merge.Max, "", "has the default 5"},
		{"z", merge.Max, "", "has the default 0"},
		{"z", merge.Sum, "", ""},
		{"z", merge.Sum, "v", ""},
		{"z", merge.First, "v", "messages have a version (v)"},
		{"j", merge.Patch, "v", "messages have a version (v)"},
		{"v", merge.Sum, "v", "the version of the messages"},
		{"j", merge.Patch, "", ""},
		{"j", merge.Max, "", "it is jsonb"},
		{"z", merge.Patch, "", "it is integer"},
		{"net", merge.Min, "", "it is inet"},
		{"local", merge.Min, "", ""},
		{"local", merge.Sum, "", "it is timestamp"},
		{"made", merge.Sum, "", "the database computes it"},
		{"id", merge.Sum, "", "part of the key"},
		{"missing", merge.Sum, "", "has no such column, and gets no new ones"},
		{"n", merge.Last, "", ""},
	} {
		o := fold.Options{Key: []string{"id"}, Rules: fold.Rules{Merge: map[string]merge.Function{c.column: c.f}}, Version: c.version}
		if err := fold.CheckMerge(&user, o); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s of %s: %v, want %q", c.f, c.column, err, c.want)
		}
	}
	two := fold.Options{Key: []string{"id"}, Rules: fold.Rules{UnknownFields: fold.AddUnknown, Merge: map[string]merge.Function{"m": merge.Sum, "M": merge.Max}}}
	testcheck.NoError(t, fold.CheckMerge(&user, two))
	two.Limits.FoldCase = true
	if err := fold.CheckMerge(&user, two); err == nil || !strings.Contains(err.Error(), `the same column as "M"`) {
		t.Error(err)
	}
	f := mergeFolder(t, user, func(o *fold.Options) { o.Merge = map[string]merge.Function{"n": merge.Sum} })
	if err := f.Fold(&fold.Batch{}, []byte(`{"id":"1","n":1}`), fold.Place{}); err == nil || errors.As(err, new(*feed.Error)) || !strings.Contains(err.Error(), "default 5") {
		t.Error(err)
	}
	f = mergeFolder(t, schema.Table{Name: "t"}, func(o *fold.Options) {
		o.Merge, o.Version, o.Scope = map[string]merge.Function{"n": merge.Sum}, "v", fold.ColumnScope
	})
	if err := f.Fold(&fold.Batch{}, []byte(`{"id":"1","v":1,"op":"d"}`), fold.Place{}); err == nil || errors.As(err, new(*feed.Error)) {
		t.Error(err)
	}
}

// BenchmarkFold_Sum folds a sum and a last value per message.
func BenchmarkFold_Sum(b *testing.B) {
	var lines [][]byte
	for i := range 10_000 {
		lines = append(lines, fmt.Appendf(nil, `{"id":%d,"name":"page %d","hits":%d}`, i%1000, i%1000, i%7))
	}
	for _, function := range []merge.Function{merge.Last, merge.Sum, merge.Max} {
		b.Run(function.String(), func(b *testing.B) {
			o := fold.Options{Key: []string{"id"}, Rules: fold.Rules{UnknownFields: fold.AddUnknown, MaxColumns: 9}}
			if function != merge.Last {
				o.Merge = map[string]merge.Function{"hits": function}
			}
			f, batch := sinktest.NewFolder(schema.Table{Name: "t"}, o, ""), &fold.Batch{}
			b.ReportAllocs()
			for b.Loop() {
				for _, l := range lines {
					if err := f.Fold(batch, l, fold.Place{}); err != nil {
						b.Fatal(err)
					}
				}
				f.Seal(batch)
				batch.Reset()
			}
		})
	}
}

// TestFold_PatchesOfOneRow: many patches of one row use memory for the members that they set, not for each version of
// the object.
func TestFold_PatchesOfOneRow(t *testing.T) {
	for _, members := range []int{1, 7, 2000} {
		for _, before := range []string{`{"id":1}`, `{"id":1,"p":[1]}`} { // the second starts an absolute value
			o := fold.Options{Key: []string{"id"}, Rules: fold.Rules{UnknownFields: fold.AddUnknown, MaxColumns: 9, Merge: map[string]merge.Function{"p": merge.Patch}}}
			f, b := sinktest.NewFolder(schema.Table{Name: "t"}, o, ""), &fold.Batch{}
			testcheck.NoError(t, f.Fold(b, []byte(before), fold.Place{}))
			for i := range 2000 {
				line := fmt.Appendf(nil, `{"id":1,"p":{"in":{"m%d":%d}}}`, i%members, 10_000+i)
				testcheck.NoError(t, f.Fold(b, line, fold.Place{}))
			}
			var all []string
			for m := range members {
				all = append(all, fmt.Sprintf(`"m%d":%d`, m, 12_000-members+(m+members-2000%members)%members))
			}
			size := b.Bytes()
			f.Seal(b)
			want := `{"in":{` + strings.Join(all, ",") + `}}`
			if got := string(b.Value(b.Sorted()[0], 1)); got != want {
				t.Errorf("%d members: the value is %.200s, want %.200s", members, got, want)
			}
			if most := 6*len(want) + 10_000; size > most {
				t.Errorf("%d members of %d bytes: the batch has %d bytes, more than %d", members, len(want), size, most)
			}
		}
	}
}

// BenchmarkFold_Patches folds patches of one row. A message costs the same however many there are.
func BenchmarkFold_Patches(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		for _, many := range []bool{false, true} { // members
			b.Run(fmt.Sprintf("%d/many=%v", n, many), func(b *testing.B) {
				var lines [][]byte
				for i := range n {
					if many {
						lines = append(lines, fmt.Appendf(nil, `{"id":1,"p":{"in":{"m%d":%d}}}`, i, i))
					} else {
						lines = append(lines, fmt.Appendf(nil, `{"id":1,"p":{"in":{"m%d":%d}}}`, i%10, i))
					}
				}
				o := fold.Options{Key: []string{"id"}, Rules: fold.Rules{UnknownFields: fold.AddUnknown, MaxColumns: 9, Merge: map[string]merge.Function{"p": merge.Patch}}}
				f, batch := sinktest.NewFolder(schema.Table{Name: "t"}, o, ""), &fold.Batch{}
				for b.Loop() {
					for _, l := range lines {
						if err := f.Fold(batch, l, fold.Place{}); err != nil {
							b.Fatal(err)
						}
					}
					f.Seal(batch)
					b.ReportMetric(float64(batch.Bytes())/float64(n), "B/msg")
					batch.Reset()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/msg")
			})
		}
	}
}

// nestedPair nests two tables: the second is a child of the first. isSet reports whether it is a set.
type nestedPair struct {
	fold.Nesting
	isSet bool
}

func (nestedPair) Parent(table int) (int, []string) {
	if table == 1 {
		return 0, []string{"id"}
	}
	return -1, nil
}

func (n nestedPair) Set(table int) bool { return n.isSet && table == 1 }

func (nestedPair) SetColumn(int) string { return "" }

// TestFold_SumsOfChildRows: the sum of a child that is deleted with its parent starts again, in any order of the two.
func TestFold_SumsOfChildRows(t *testing.T) {
	parent := schema.Table{Name: "p", Exists: true, Key: []int{0}, Columns: []schema.Column{{Name: "id", Type: schema.Int, Key: true}}}
	child := schema.Table{Name: "c", Exists: true, Key: []int{0, 1}, Columns: []schema.Column{{Name: "id", Type: schema.Int, Key: true}, {Name: "nr", Type: schema.Int, Key: true}, {Name: "n", Type: schema.Number}}}
	pair := func(names *feed.Names) (fold.Folders, fold.Options, fold.Options) {
		po := fold.Options{Key: []string{"id"}, Rules: fold.Rules{UnknownFields: fold.IgnoreUnknown}, Log: logtest.New(t)}
		co := po
		co.Key, co.Merge = []string{"id", "nr"}, map[string]merge.Function{"n": merge.Sum}
		return fold.Folders{fold.NewFolder(names, parent, po), fold.NewFolder(names, child, co)}, po, co
	}
	folders, _, _ := pair(&feed.Names{})
	if err := folders.Nest(nestedPair{isSet: true}); err == nil || !strings.Contains(err.Error(), "nothing to merge with") {
		t.Error(err)
	}
	for _, c := range []struct {
		feed string // + adds 2 to the child, d deletes the parent, r replaces it
		want string // the sum if the database has 10
	}{{"+", "12"}, {"++", "14"}, {"+d+", "2"}, {"d+", "2"}, {"d++", "4"}, {"r+", "2"}, {"+r+", "2"}, {"+d", ""}} {
		names := &feed.Names{}
		folders, po, co := pair(names)
		testcheck.NoError(t, folders.Nest(nestedPair{}))
		set := fold.NewSet(2)
		for i, step := range c.feed {
			changes := []fold.TableChange{{Table: 0, Change: *change(t, names, po, `{"id":1}`, map[rune]fold.Op{'d': fold.Delete, 'r': fold.Replace, '+': fold.Upsert}[step])}}
			if step == '+' {
				changes = append(changes, fold.TableChange{Table: 1, Change: *change(t, names, co, `{"id":1,"nr":1,"n":2}`, fold.Upsert)})
			}
			_, err := folders.Add(set, changes, fold.Place{Line: int64(i)})
			testcheck.NoError(t, err)
		}
		folders.Seal(set)
		b, got := set.Batches[1], ""
		for _, r := range b.Sorted() {
			have := []byte("10")
			if r.Replaces {
				have = nil
			}
			if !r.Deleted {
				merged, _ := b.AppendMerged(nil, r, 2, have)
				got += string(merged)
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.feed, got, c.want)
		}
	}
}
