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

// TestFold_Deletes: which values of its field make a message a delete. Null is JSON's, and no text.
func TestFold_Deletes(t *testing.T) {
	for _, c := range []struct{ value, field, want string }{
		{"null", `,"op":null`, " replaces deleted"}, {"null", `,"op":"null"`, ` op="null"`}, {"null", "", ""}, {"5", `,"op":5`, " replaces deleted"}, {"5", `,"op":"5"`, " replaces deleted"},
		{"", `,"op":null`, " op=null"}, {"", `,"op":""`, " replaces deleted"},
	} {
		f := newFolder(t, func(o *fold.Options) { o.DeleteValue = c.value })
		if got := rows(t, f, &fold.Batch{}, `{"id":1`+c.field+`}`); got != `"1"`+c.want+"\n" {
			t.Errorf("%s with %s: %s", c.value, c.field, got)
		}
	}
}

// TestFold_PartsOfAKey do not run together.
func TestFold_PartsOfAKey(t *testing.T) {
	f := newFolder(t, func(o *fold.Options) { o.Key = []string{"a", "b"} })
	want := "\"1\\x00\\x00\\x00\\x0123\\x00\\x00\\x00\\x02\" n=2\n\"12\\x00\\x00\\x00\\x023\\x00\\x00\\x00\\x01\" n=1\n"
	if got := rows(t, f, &fold.Batch{}, `{"a":"12","b":"3","n":1}`, `{"a":"1","b":"23","n":2}`); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// TestFold_LastOfManyEqualNames: nothing of a line depends on a value that comes again in it, however many fields
// there are.
func TestFold_LastOfManyEqualNames(t *testing.T) {
	if got := rows(t, newFolder(t, nil), &fold.Batch{}, `{"id":1`+strings.Repeat(`,"a":1`, 60_000)+`,"a":2}`); got != "\"1\" a=2\n" { // more than there may be columns
		t.Error(got)
	}
	many, back := `{"id":1`, `{"id":1` // more than the quick look tells apart, in both orders
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
