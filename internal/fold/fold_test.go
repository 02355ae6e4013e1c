package fold_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/test/bench"
	"github.com/weirsync/weir/internal/test/logtest"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// table returns a table that does not exist.
var table = schema.Table{Name: "t"}

func newFolder(t testing.TB, change func(*fold.Options)) *sinktest.Folder {
	return sinktest.NewFolder(table, options(t, change), "op=delete")
}

// options returns options for a database like SQLite.
func options(t testing.TB, change func(*fold.Options)) fold.Options {
	o := fold.Options{Key: []string{"id"}, Rules: fold.Rules{UnknownFields: fold.AddUnknown, MaxColumns: 500}, Limits: schema.Limits{FoldCase: true, Untyped: true}, Log: logtest.New(t)}
	if change != nil {
		change(&o)
	}
	return o
}

// rows folds lines and returns the batch's rows as text, in key order.
func rows(t testing.TB, f *sinktest.Folder, b *fold.Batch, lines ...string) string {
	t.Helper()
	for i, l := range lines {
		if err := f.Fold(b, []byte(l), fold.Place{Line: int64(i + 1)}); err != nil {
			t.Fatalf("%s: %v", l, err)
		}
	}
	f.Seal(b)
	return dump(b)
}

func dump(b *fold.Batch) string { return dumpRows(b, b.Sorted()) }

func dumpRows(b *fold.Batch, rows []*fold.Row) string {
	var out strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&out, "%q", r.Key)
		if r.Replaces {
			out.WriteString(" replaces")
		}
		if r.Deleted {
			out.WriteString(" deleted")
		}
		for i, c := range b.Table.Columns {
			if v := b.Value(r, i); v != nil && !c.Key {
				fmt.Fprintf(&out, " %s=%s", c.Name, v)
			}
		}
		out.WriteByte('\n')
	}
	return out.String()
}

// TestFold runs the feeds in testdata/rows.txtar.
func TestFold(t *testing.T) {
	testcheck.Golden(t, "testdata/rows.txtar", func(t *testing.T, _, text string) (out string) {
		o, b := options(t, nil), &fold.Batch{}
		var f *sinktest.Folder
		for line := range strings.Lines(text) {
			if rest, ok := strings.CutPrefix(line, "options "); ok {
				testcheck.NoError(t, json.Unmarshal([]byte(rest), &o))
			} else if strings.HasPrefix(line, "= ") {
				continue
			}
			if out += line; f == nil {
				f = sinktest.NewFolder(table, o, "op=delete")
			}
			if !strings.HasPrefix(line, "{") {
				continue
			}
			if err := f.Fold(b, []byte(strings.TrimSuffix(line, "\n")), fold.Place{}); errors.As(err, new(*feed.Error)) {
				out += "= rejected: " + err.Error() + "\n"
			} else if err != nil {
				out += "= ends: " + err.Error() + "\n"
			}
		}
		f.Seal(b)
		for row := range strings.Lines(dump(b)) {
			out += "= " + row
		}
		return out
	})
}

// TestFold_LastOfManyEqualNames: only the last value of a name matters, however many fields a line has.
func TestFold_LastOfManyEqualNames(t *testing.T) {
	if got := rows(t, newFolder(t, nil), &fold.Batch{}, `{"id":1`+strings.Repeat(`,"a":1`, 60_000)+`,"a":2}`); got != "\"1\" a=2\n" { // more than the most columns
		t.Error(got)
	}
	many, back := `{"id":1`, `{"id":1` // more than the bit set distinguishes, in both orders
	for i := range 100 {
		many += fmt.Sprintf(`,"c%d":%d`, i, i)
		back += fmt.Sprintf(`,"c%d":"x"`, 99-i)
	}
	if got := rows(t, newFolder(t, nil), &fold.Batch{}, many+`}`, many+`,"c7":"last"}`, back+`,"c98":"last"}`); strings.Count(got, `"x"`) != 99 || strings.Count(got, `c98="last"`) != 1 {
		t.Error(got)
	}
	folder := newFolder(t, nil)
	rows(t, folder, &fold.Batch{}, `{"id":"x","id":1,"n":"x","n":true,"n":2}`, `{"n":[],"id":2,"n":3,"id":[],"id":"3"}`)
	for _, c := range folder.Table().Columns {
		if c.Type != schema.Int {
			t.Errorf("column %s is %s", c.Name, c.Type)
		}
	}
}

// TestFold_HeldColumnsCountAsAdded: a column that weir made counts towards the maximum even if a view depends on it.
func TestFold_HeldColumnsCountAsAdded(t *testing.T) {
	table := schema.Table{Name: "t", Exists: true, Made: true, Key: []int{0}, Columns: []schema.Column{{Name: "id", Type: schema.Text, Key: true}, {Name: "a", Type: schema.Int, Widening: schema.Widening{Held: "view v uses it"}}}}
	f := sinktest.NewFolder(table, fold.Options{Key: []string{"id"}, Rules: fold.Rules{UnknownFields: fold.AddUnknown, MaxColumns: 1}, Log: logtest.New(t)}, "")
	rows(t, f, &fold.Batch{}, `{"id":1,"b":1}`)
	if got := f.Table().Columns; len(got) != 2 {
		t.Errorf("%d columns, want 2: %v", len(got), got)
	}
}

// TestFold_LongPartsOfAKeyDoNotRunTogether: the first part's length needs more than 24 bits.
func TestFold_LongPartsOfAKeyDoNotRunTogether(t *testing.T) {
	f, b := newFolder(t, func(o *fold.Options) { o.Key = []string{"a", "b"} }), &fold.Batch{}
	rows(t, f, b, `{"a":"`+strings.Repeat("x", 1<<24)+`","b":"y"}`)
	var short []byte
	for _, r := range b.Sorted() {
		short = bytes.TrimLeft(r.Key, "x")
	}
	if want := "\x01\x00\x00\x00y\x00\x00\x00\x01"; string(short) != want {
		t.Errorf("the key ends with %q, want %q", short, want)
	}
}

// TestFold_Widens: columns are widened by the values of all accepted messages, in any order, and by no others.
func TestFold_Widens(t *testing.T) {
	values := []string{"null", "true", "1", "-0", "9007199254740993", "99999999999999999999", "1.5", "1e400", `"x"`, `"1"`, "{}", "[1]", "[1e999999]"}
	sinktest.Seeds(t, 300, func(t *testing.T, rnd *rand.Rand) {
		f, b := newFolder(t, nil), &fold.Batch{}
		key := schema.New("id", true)
		want := map[string]*schema.Column{"id": &key}
		for range rnd.IntN(40) {
			id, a, name := values[1+rnd.IntN(9)], values[rnd.IntN(1+rnd.IntN(len(values)))], []string{"a", "b"}[rnd.IntN(2)]
			line := fmt.Sprintf(`{"id":%s,%q:%s}`, id, name, a)
			gone := rnd.IntN(4)
			switch gone {
			case 0:
				line = fmt.Sprintf(`{%q:%s,"id":null}`, name, a)
			case 1:
				line = fmt.Sprintf(`{"id":%s,"op":"delete",%q:%s}`, id, name, a)
			}
			if err := f.Fold(b, []byte(line), fold.Place{}); (err != nil) != (gone == 0) {
				t.Fatalf("%s: %v", line, err)
			}
			if id == "-0" { // an integer in a key has one spelling
				id = "0"
			}
			if gone > 0 {
				_ = want["id"].Admit([]byte(id), feed.KindOf([]byte(id)))
			}
			if gone > 1 {
				if want[name] == nil {
					c := schema.New(name, false)
					want[name] = &c
				}
				_ = want[name].Admit([]byte(a), feed.KindOf([]byte(a)))
			}
			got := f.Table()
			if len(got.Columns) != len(want) {
				t.Fatalf("%s: %d columns, want %d", line, len(got.Columns), len(want))
			}
			for _, c := range got.Columns {
				if w := want[c.Name]; c.Type != w.Type || c.Mark() != w.Mark() {
					t.Fatalf("%s: %s is %s (%s), want %s (%s)", line, c.Name, c.Type, c.Mark(), w.Type, w.Mark())
				}
			}
			if rnd.IntN(5) == 0 {
				f.Seal(b)
				b.Reset()
			}
		}
	})
}

// TestBatch_ValuesOfAllSizes overwrites values with longer and shorter ones, also longer than a chunk, and reuses the
// batch.
func TestBatch_ValuesOfAllSizes(t *testing.T) {
	f, b := newFolder(t, nil), &fold.Batch{}
	for round := range 3 {
		want := map[string]string{}
		for i, n := range []int{0, 5, 3 << 20, 1, 1 << 20, 100, 1<<20 - 12, 7, 300 << 10, 300 << 10, 300 << 10, 300 << 10, 2 << 20} {
			id := fmt.Sprint(i % 3)
			v := strings.Repeat(string(rune('a'+i)), n+round)
			want[id] = fmt.Sprintf("%q", v)
			testcheck.NoError(t, f.Fold(b, fmt.Appendf(nil, `{"id":%q,"v":%q}`, id, v), fold.Place{}))
		}
		f.Seal(b)
		for _, r := range b.Sorted() {
			if got := b.Value(r, 1); string(got) != want[string(r.Key)] {
				t.Errorf("round %d row %s: %d bytes, want %d", round, r.Key, len(got), len(want[string(r.Key)]))
			}
		}
		b.Reset()
		if b.Rows() != 0 {
			t.Error("a batch that was reset has rows")
		}
	}
}

// flights returns the lines of the shipped feed.
func flights(tb testing.TB) [][]byte {
	var buf bytes.Buffer
	testcheck.NoError(tb, bench.Flights(&buf, bench.ShippedFlights, bench.ShippedSeed))
	return bytes.Split(bytes.TrimSpace(buf.Bytes()), []byte("\n"))
}

func TestFold_KnownRowAllocatesNothing(t *testing.T) {
	lines := flights(t)
	f, b := newFolder(t, nil), &fold.Batch{}
	all := func() {
		for _, l := range lines {
			testcheck.NoError(t, f.Fold(b, l, fold.Place{}))
		}
	}
	all()
	all() // values have reached their final size
	if n := testing.AllocsPerRun(3, all); n > float64(len(lines))/1000 {
		t.Errorf("%v allocations for %d messages", n, len(lines))
	}
}

// BenchmarkFold scans and folds messages for existing rows: the shipped feed, and hot feeds of one and of six types,
// whose rows exceed the CPU's cache.
func BenchmarkFold(b *testing.B) {
	b.Run("flights", func(b *testing.B) { benchmarkFold(b, flights(b)) })
	for _, hot := range []struct {
		name  string
		write func(w io.Writer, n, ids int, seed uint64) error
	}{{"hot", bench.Hot}, {"shapes", bench.Shapes}} {
		var lines bytes.Buffer
		testcheck.NoError(b, hot.write(&lines, 200_000, 50_000, 1))
		b.Run(hot.name, func(b *testing.B) { benchmarkFold(b, bytes.Split(bytes.TrimSpace(lines.Bytes()), []byte("\n"))) })
	}
}

func benchmarkFold(b *testing.B, lines [][]byte) {
	names, batch, o := &feed.Names{}, &fold.Batch{}, options(b, nil)
	f, mapper, scan := fold.NewFolder(names, table, o), sinktest.NewMapper(names, o, "op=delete"), feed.NewScanner(names)
	ahead, fields := make([]feed.Line, 64), []feed.Field(nil)
	set, folders, changes := &fold.Set{Batches: []*fold.Batch{batch}, Unsplit: true}, fold.Folders{f}, make([]fold.TableChange, 1)
	size, n := 0, 0
	next := func() {
		fields = fields[:0]
		for i := range ahead {
			text := lines[n%len(lines)]
			fields = ahead[i].Scan(scan, fields, text)
			size += len(text)
			n++
		}
		for i := range ahead {
			f.Warm(batch, ahead, i)
			changes[0].Change = mapper.Map(&ahead[i])
			_, err := folders.Add(set, changes, fold.Place{})
			testcheck.NoError(b, err)
		}
	}
	for n < len(lines) {
		next()
	}
	size, n = 0, 0
	b.ReportAllocs()
	for b.Loop() {
		next()
	}
	b.SetBytes(int64(size / b.N))
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "msg/s")
}

// change returns the change that a line makes, with another op.
func change(t *testing.T, names *feed.Names, o fold.Options, line string, op fold.Op) *fold.Change {
	var l feed.Line
	if l.Scan(feed.NewScanner(names), nil, []byte(line)); l.Err != nil {
		t.Fatal(l.Err)
	}
	c := sinktest.NewMapper(names, o, "op=delete").Map(&l)
	c.Op = op
	return &c
}

// TestFolders_ADeleteMakesNoColumn: also with other changes in the same message.
func TestFolders_ADeleteMakesNoColumn(t *testing.T) {
	remove, set := `{"id":1,"gone":1}`, `{"id":2,"set":1}`
	for _, ops := range [][]fold.Op{{fold.Delete}, {fold.Delete, fold.Upsert}, {fold.Upsert, fold.Delete}, {fold.Upsert, fold.Delete, fold.Upsert}} {
		o, names := fold.Options{Key: []string{"id"}, Rules: fold.Rules{UnknownFields: fold.AddUnknown, MaxColumns: 9}, Log: logtest.New(t)}, &feed.Names{}
		folder := fold.NewFolder(names, schema.Table{Name: "t"}, o)
		var changes []fold.TableChange
		for _, op := range ops {
			line := set
			if op == fold.Delete {
				line = remove
			}
			changes = append(changes, fold.TableChange{Change: *change(t, names, o, line, op)})
		}
		if _, err := (fold.Folders{folder}).Add(fold.NewSet(1), changes, fold.Place{}); err != nil {
			t.Fatal(err)
		}
		table := folder.Table()
		if n := len(table.Columns); n != min(2, len(ops)) || table.Columns[n-1].Name == "gone" {
			t.Errorf("%v make the columns %+v", ops, table.Columns)
		}
	}
}

// TestAdd_Splits: a set is written before a message that would change the outcome of an earlier delete.
func TestAdd_Splits(t *testing.T) {
	names := &feed.Names{}
	type about struct {
		op    fold.Op
		table int
		key   int
	}
	const planes, flights, crews = 0, 1, 2 // flights name planes, and so do the members of crews
	for _, c := range []struct {
		name   string
		splits bool // before the last message
		feed   [][]about
	}{
		{"the row is written after its delete", true, [][]about{{{fold.Delete, planes, 1}}, {{fold.Upsert, planes, 1}}}},
		{"another row is written", false, [][]about{{{fold.Delete, planes, 1}}, {{fold.Upsert, planes, 2}}}},
		{"a row is named after a delete", true, [][]about{{{fold.Delete, planes, 1}}, {{fold.Upsert, flights, 1}, {fold.Ensure, planes, 2}}}},
		{"a row that may name the deleted one is deleted", true, [][]about{{{fold.Delete, planes, 1}}, {{fold.Delete, flights, 1}}}},
		{"a row is deleted whose members may name the deleted one", true, [][]about{{{fold.Delete, planes, 1}}, {{fold.Delete, crews, 1}}}},
		{"a row is deleted that was named", true, [][]about{{{fold.Upsert, flights, 1}, {fold.Ensure, planes, 1}}, {{fold.Delete, planes, 1}}}},
		{"another row is deleted", false, [][]about{{{fold.Upsert, flights, 1}, {fold.Ensure, planes, 1}}, {{fold.Delete, planes, 2}}}},
		{"flights are deleted before a plane", false, [][]about{{{fold.Delete, flights, 1}}, {{fold.Delete, planes, 1}}}},
		{"one message deletes and makes a row", false, [][]about{{{fold.Upsert, flights, 1}}, {{fold.Delete, planes, 1}, {fold.Upsert, flights, 1}, {fold.Ensure, planes, 1}}}},
	} {
		for _, unsplit := range []bool{false, true} {
			var folders fold.Folders
			o := fold.Options{Key: []string{"id"}, Rules: fold.Rules{UnknownFields: fold.IgnoreUnknown}, Log: logtest.New(t)}
			for i, refs := range [][]schema.Ref{nil, {{Column: 1, From: []int{1}, Table: planes}}, nil, {{Column: 1, From: []int{1}, Table: planes}}} {
				table := schema.Table{Name: fmt.Sprint("t", i), Exists: true, Key: []int{0}, Columns: []schema.Column{{Name: "id", Key: true}, {Name: "plane"}}, Refs: refs}
				folders = append(folders, fold.NewFolder(names, table, o))
			}
			folders.Nest(crewed{})
			set := fold.NewSet(len(folders))
			set.Unsplit = unsplit
			for i, message := range c.feed {
				var changes []fold.TableChange
				for _, x := range message {
					changes = append(changes, fold.TableChange{Table: x.table, Change: *change(t, names, o, fmt.Sprintf(`{"id":%d}`, x.key), x.op)})
				}
				_, err := folders.Add(set, changes, fold.Place{})
				if last := i == len(c.feed)-1; (err == fold.ErrSplit) != (last && c.splits && !unsplit) || err != nil && err != fold.ErrSplit {
					t.Errorf("%s, unsplit %v: message %d: %v", c.name, unsplit, i, err)
				}
			}
		}
	}
}

// crewed nests four tables: the last is a child of the third.
type crewed struct{ fold.Nesting }

func (crewed) Nested(table int) fold.Nested {
	if table == 3 {
		return fold.Nested{Parent: 2, Key: []string{"id"}}
	}
	return fold.Nested{Parent: -1}
}
