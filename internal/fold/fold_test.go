package fold_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/bench"
	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/logtest"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/testcheck"
)

// table is one that does not exist.
var table = schema.Table{Name: "t"}

func newFolder(t testing.TB, change func(*fold.Options)) *fold.Folder {
	return fold.NewFolder(&feed.Names{}, table, options(t, change))
}

// options are those of a table in a database like SQLite.
func options(t testing.TB, change func(*fold.Options)) fold.Options {
	o := fold.Options{Key: []string{"id"}, DeleteField: "op", DeleteValue: "delete", Columns: fold.AddColumns, MaxColumns: 500,
		Limits: schema.Limits{FoldCase: true, Untyped: true}, Log: logtest.New(t)}
	if change != nil {
		change(&o)
	}
	return o
}

// rows folds lines and returns the batch's rows as text, in the order of keys.
func rows(t testing.TB, f *fold.Folder, b *fold.Batch, lines ...string) string {
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

func TestFold_MergesByKey(t *testing.T) {
	f := func(change func(*fold.Options), want string, lines ...string) {
		t.Helper()
		if got := rows(t, newFolder(t, change), &fold.Batch{}, lines...); got != want {
			t.Errorf("%q\ngive\n%swant\n%s", lines, got, want)
		}
	}
	f(nil, "\"x\" a=2 b=1\n", `{"id":"x","a":1,"b":1}`, `{"id":"\u0078","a":2}`)
	f(nil, "\"1\" a=1 b=null\n", `{"id":1,"a":1}`, `{"id":"1","b":null}`)
	f(nil, "\"x\" a=2\n", `{"id":"y","a":1,"id":"x","a":2}`)
	f(nil, "\"x\" replaces b=2\n", `{"id":"x","a":1}`, `{"id":"x","op":"delete","a":5}`, `{"id":"x","b":2}`)
	f(nil, "\"x\" replaces deleted\n", `{"id":"x","a":1}`, `{"id":"x","op":"delete"}`)
	f(func(o *fold.Options) { o.Null = fold.KeepNull }, "\"x\" a=1\n", `{"id":"x","a":1}`, `{"id":"x","a":null,"b":null}`)
	f(func(o *fold.Options) { o.FillOnly = true }, "\"x\" a=1 b=2\n", `{"id":"x","a":1,"b":null}`, `{"id":"x","a":3,"b":2}`)
	f(func(o *fold.Options) { o.Key = []string{"a", "b"} }, "\"1\\x00\\x00\\x00\\x0123\\x00\\x00\\x00\\x02\" n=2\n\"12\\x00\\x00\\x00\\x023\\x00\\x00\\x00\\x01\" n=1\n", `{"a":"12","b":"3","n":1}`, `{"a":"1","b":"23","n":2}`)
	// More equal names than there may be columns.
	f(nil, "\"1\" a=2\n", `{"id":1`+strings.Repeat(`,"a":1`, 60_000)+`,"a":2}`)
	// Null is JSON's, and no text.
	null := func(o *fold.Options) { o.DeleteValue = "null" }
	f(null, "\"1\" replaces deleted\n", `{"id":1,"op":null}`)
	f(null, "\"1\" op=\"null\"\n", `{"id":1,"op":"null"}`)
	f(null, "\"1\"\n", `{"id":1}`)
	f(func(o *fold.Options) { o.DeleteValue = "5" }, "\"1\" replaces deleted\n\"2\" replaces deleted\n", `{"id":1,"op":5}`, `{"id":2,"op":"5"}`)
	f(func(o *fold.Options) { o.DeleteValue = "" }, "\"1\" op=null\n\"2\" replaces deleted\n", `{"id":1,"op":null}`, `{"id":2,"op":""}`)
}

// TestFold_LastOfTwoEqualNamesIsTheOnlyOne: nothing of a line depends on a value that
// comes again in it.
func TestFold_LastOfTwoEqualNamesIsTheOnlyOne(t *testing.T) {
	table := schema.Table{Name: "t", Exists: true, Key: []int{0}, Columns: []schema.Column{
		{Name: "id", Type: schema.Int, Key: true}, {Name: "n", Type: schema.Int}, {Name: "s", Type: schema.Text}}}
	versions := func(o *fold.Options) { o.Version, o.Scope = "v", fold.ColumnScope }
	f := func(change func(*fold.Options), want string, lines ...string) {
		t.Helper()
		o := fold.Options{Limits: schema.Limits{NoNUL: true, FoldCase: true}, Key: []string{"id"}, DeleteField: "op", DeleteValue: "delete", Columns: fold.IgnoreColumns, Log: logtest.New(t)}
		if change != nil {
			change(&o)
		}
		if got := rows(t, fold.NewFolder(&feed.Names{}, table, o), &fold.Batch{}, lines...); got != want {
			t.Errorf("%q\ngive\n%swant\n%s", lines, got, want)
		}
	}
	f(nil, "\"1\" n=2\n", `{"id":1,"n":"bad","n":2}`)
	f(nil, "\"1\" n=2\n", `{"id":1,"n":1.5,"\u006e":{},"n":2}`)
	f(nil, "\"1\" n=3\n", `{"id":[],"n":"bad","n":3,"id":{},"id":"x","id":null,"id":1}`)
	f(nil, "\"1\" s=\"y\"\n", `{"id":1,"s":"x\u0000","s":"y"}`)
	f(func(o *fold.Options) { o.FillOnly = true }, "\"1\" n=2\n", `{"id":1,"n":1,"n":2}`, `{"id":1,"n":3,"n":4}`)
	f(func(o *fold.Options) { o.FillOnly = true }, "\"1\" n=3\n", `{"id":1,"n":1,"n":null}`, `{"id":1,"n":3}`)
	f(func(o *fold.Options) { o.Null = fold.KeepNull }, "\"1\" n=1\n", `{"id":1,"n":1}`, `{"id":1,"n":2,"n":null}`)
	f(nil, "\"1\" s=\"x\"\n", `{"id":1,"op":"delete","op":"update","s":"x"}`)
	f(nil, "\"1\" replaces deleted\n", `{"id":1,"op":"update","s":1,"op":"delete"}`)
	f(versions, "\"1\" n=2\n", `{"id":1,"v":5,"n":2}`, `{"id":1,"v":9,"n":3,"v":4}`, `{"id":1,"v":[],"v":3,"n":"bad","n":1}`)

	// More fields than the quick look tells apart, in both orders.
	many, back := `{"id":1`, `{"id":1`
	for i := range 100 {
		many += fmt.Sprintf(`,"c%d":%d`, i, i)
		back += fmt.Sprintf(`,"c%d":"x"`, 99-i)
	}
	of := newFolder(t, nil)
	if got := rows(t, of, &fold.Batch{}, many+`}`, many+`,"c7":"last"}`, back+`,"c98":"last"}`); strings.Count(got, `"x"`) != 99 || strings.Count(got, `c98="last"`) != 1 {
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

// TestFold_TooManyNewFieldsIsOfTheLine: fields that an earlier line brought, and that found
// no column, count as in a run that does not know them.
func TestFold_TooManyNewFieldsIsOfTheLine(t *testing.T) {
	few := func(o *fold.Options) { o.MaxColumns = 1 }
	line := []byte(`{"id":4,"b":2,"c":2,"b":3}`)
	for _, before := range [][]string{nil, {`{"id":1,"a":1}`, `{"id":2,"b":1}`, `{"id":3,"c":1}`}} {
		f, b := newFolder(t, few), &fold.Batch{}
		rows(t, f, b, before...)
		if err := f.Fold(b, line, fold.Place{}); err == nil {
			t.Errorf("after %d lines, two new fields were taken", len(before))
		}
		if err := f.Fold(b, []byte(`{"id":4,"b":2,"b":3}`), fold.Place{}); err != nil {
			t.Errorf("after %d lines: %v", len(before), err)
		}
	}
}

// TestFold_HeldColumnsCountAsAdded: a column of weir's that a view holds takes its place
// among those that may be added.
func TestFold_HeldColumnsCountAsAdded(t *testing.T) {
	table := schema.Table{Name: "t", Exists: true, Made: true, Key: []int{0}, Columns: []schema.Column{{Name: "id", Type: schema.Text, Key: true}, {Name: "a", Type: schema.Int, Held: "view v uses it"}}}
	f := fold.NewFolder(&feed.Names{}, table, fold.Options{Key: []string{"id"}, Columns: fold.AddColumns, MaxColumns: 1, Log: logtest.New(t)})
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

// TestFold_KeyIsMeasuredByItsText: escapes make no key longer.
func TestFold_KeyIsMeasuredByItsText(t *testing.T) {
	for _, c := range []struct {
		key  string
		fits bool
	}{
		{`"12345678"`, true}, {`"123456789"`, false}, {`12345678`, true}, {`123456789`, false},
		{`"\u6f22\u6f22ab"`, true}, {`"漢漢ab"`, true}, {`"\u6f22\u6f22abc"`, false}, {`"漢漢abc"`, false}, {`"\ud83d\ude00\n\"\\\u0041"`, true},
	} {
		f := fold.NewFolder(&feed.Names{}, schema.Table{Name: "t"}, fold.Options{Limits: schema.Limits{MaxKey: 8}, Key: []string{"id"}, Columns: fold.AddColumns, Log: logtest.New(t)})
		var bad *feed.Error
		switch err := f.Fold(&fold.Batch{}, []byte(`{"id":`+c.key+`}`), fold.Place{}); {
		case c.fits && err != nil, !c.fits && (!errors.As(err, &bad) || bad.Reason != feed.BadKey):
			t.Errorf("%s: %v", c.key, err)
		}
	}
}

// TestFold_RejectedLineLeavesNoTrace folds lines that bring new columns and are no
// messages.
func TestFold_RejectedLineLeavesNoTrace(t *testing.T) {
	f, b := newFolder(t, nil), &fold.Batch{}
	rows(t, f, b, `{"id":"x","a":1}`)
	for _, l := range []string{`{"new":1}`, `{"new":1,"id":null}`, `{"id":"x","new":1,"":2}`, `{"id":"x","new":1,"n\u0000":2}`} {
		var bad *feed.Error
		if err := f.Fold(b, []byte(l), fold.Place{}); !errors.As(err, &bad) {
			t.Errorf("%s: %v", l, err)
		}
	}
	if err := f.Fold(b, []byte(`{"id":"x","op":"delete","why":1}`), fold.Place{}); err != nil {
		t.Error(err)
	}
	if n := len(f.Table().Columns); n != 2 {
		t.Errorf("%d columns: %+v", n, f.Table().Columns)
	}
	if got := rows(t, f, b, `{"a":2,"id":"x","new":3}`); got != "\"x\" replaces a=2 new=3\n" {
		t.Error(got)
	}
}

// TestFold_Widens columns by the values of all messages that are taken, in any order, and by no others.
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

// TestFold_NamesThatAreOneColumn: the second of them ends the run.
func TestFold_NamesThatAreOneColumn(t *testing.T) {
	f, b := newFolder(t, nil), &fold.Batch{}
	rows(t, f, b, `{"id":"x","alt":1}`)
	var names *fold.NamesError
	if err := f.Fold(b, []byte(`{"id":"x","Alt":1}`), fold.Place{}); !errors.As(err, &names) || names.First != "alt" || names.Second != "Alt" {
		t.Errorf("%v", err)
	}
}

// TestBatch_ValuesOfAllSizes overwrites values by longer and shorter ones, past the
// size of the arena's chunks, and uses the batch again.
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

// TestMessages_AreThoseThatWereFolded takes the batch of a table with constraints apart again.
func TestMessages_AreThoseThatWereFolded(t *testing.T) {
	table := schema.Table{Name: "t", Exists: true, HasConstraints: true, Key: []int{0}, Columns: []schema.Column{
		{Name: "id", Type: schema.Text, Key: true}, {Name: "a", Type: schema.Any}, {Name: "b", Type: schema.Any}}}
	f := fold.NewFolder(&feed.Names{}, table, fold.Options{Key: []string{"id"}, Columns: fold.IgnoreColumns, Log: logtest.New(t)})
	b := &fold.Batch{}
	rows(t, f, b, `{"id":"x","a":1}`, `{"id":"y","a":2}`, `{"id":"x","b":3}`)
	var got []string
	all := []*fold.Batch{b}
	for _, m := range fold.Messages(all) {
		r := fold.Merge(all, []fold.Message{m})[0][0]
		got = append(got, fmt.Sprintf("%d %s %s %s %s", m.Place().Line, m.Text(), m[0].Key(), b.Value(r, 1), b.Value(r, 2)))
	}
	if want := "[1 {\"id\":\"x\",\"a\":1} x 1  2 {\"id\":\"y\",\"a\":2} y 2  3 {\"id\":\"x\",\"b\":3} x  3]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}

// flights are the lines of the shipped feed.
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
	all() // values have found their room
	if n := testing.AllocsPerRun(3, all); n > float64(len(lines))/1000 {
		t.Errorf("%v allocations for %d messages", n, len(lines))
	}
}

// BenchmarkFold scans and folds into rows that the batch has: the shipped feed, and
// hot ones, of one and of six types, whose rows are more than the core's cache holds.
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
	f, mapper, scan := fold.NewFolder(names, table, o), fold.NewMapper(names, o), feed.NewScanner(names)
	ahead, fields := make([]feed.Line, 64), []feed.Field(nil)
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
			f.Prefetch(batch, ahead, i)
			c := mapper.Map(&ahead[i])
			testcheck.NoError(b, f.Add(batch, &c, fold.Place{}))
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
