package feed_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/big"
	"math/rand/v2"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/test/testcheck"
)

const flight = `{"pitr":"1795180486","type":"position","id":"SAS2004-1795180966-schedule-0373","lat":50.68949,"lon":-8.10804,"alt":37000,"gs":484,"heading":357,"gate_dest":"D24","terminal_dest":"3","route":"MERIT HFD PUT TUSKY DOGAL BEXET","reg":"N547WR","aircrafttype":"B738","orig":"SBGR","dest":"LEMD","diverted":false,"estimated_in":"1795185902"}`

// adversarial has lines that parsers disagree on.
var adversarial = []string{
	flight, `{}`, ` { } `, `{"a":1}`, "{\"a\":1}\r", `{"a":1,"a":2}`, `{"a":{"b":[1,{"c":null}]},"d":[]}`,
	`{"a":"é😀\u00e9\ud83d\ude00\"\\\/\b\f\n\r\t"}`, `{"\u0061":"x"}`, `{"":1}`, `{"a":"\u0000"}`,
	`{"a":-0}`, `{"a":-0.0}`, `{"a":1e400}`, `{"a":1E+2}`, `{"a":0.1e-7}`, `{"a":9223372036854775808}`,
	`{"a":01}`, `{"a":+1}`, `{"a":.5}`, `{"a":1.}`, `{"a":1e}`, `{"a":-}`, `{"a":0x1}`, `{"a":NaN}`, `{"a":Infinity}`, `{"a":TRUE}`, `{"a":nul}`,
	`{'a':1}`, `{a:1}`, `{"a":1,}`, `{,"a":1}`, `{"a" 1}`, `{"a":}`, `{"a":1 "b":2}`, `{"a":[1,]}`, `{"a":[,1]}`, `{"a":[1 2]}`, `{"a":{"b":1]}`, `{"a":[1}}`,
	`{"a":1}{}`, `{"a":1} x`, `{"a":1}}`, `[1]`, `[]`, `"s"`, `1`, `null`, `true`, ``, ` `, `{`, `{"`, `{"a`, `{"a"`, `{"a":`, `{"a":"`, `{"a":"\`, `{"a":"\u`, `{"a":"\u12`,
	"{\"a\":\"\x01\"}", "{\"a\":\"\t\"}", "{\"a\":\"\x7f\"}", "{\"a\":\"\xff\"}", "{\"a\":\"\xc0\x80\"}", "{\"a\":\"\xed\xa0\x80\"}", "{\"a\":\"\xf5\x80\x80\x80\"}", "{\"a\xff\":1}", "{\"a\":1\xff}",
	`{"a":"\ud800"}`, `{"a":"\udc00"}`, `{"a":"\ud800\ud800"}`, `{"a":"\ude00\ud83d"}`, `{"a":"\ud83dx"}`, `{"a":"\ud83d\n"}`, `{"a":"\x"}`, `{"a":"\u00g0"}`,
	"\ufeff{}", `{"a":1}//c`, `/*c*/{}`, "{\"a\":\u00a01}", "{\"a\":1\x00}", `{"a":"` + strings.Repeat("x", 7) + `"}`, `{"a":"` + strings.Repeat("x", 8) + `é"}`, `{"a":"` + strings.Repeat("x", 9) + `\n"}`,
}

// FuzzScan compares the scanner with a strict parser: both accept the same lines, with the same names, values and
// kinds.
func FuzzScan(f *testing.F) {
	for _, line := range adversarial {
		f.Add([]byte(line))
	}
	f.Add([]byte(`{"a":` + strings.Repeat("[", 999) + strings.Repeat("]", 999) + `}`))
	f.Add([]byte(`{"a":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		if bytes.IndexByte(line, '\n') >= 0 {
			return // no line contains a newline
		}
		before := bytes.Clone(line)
		s := feed.NewScanner(&feed.Names{})
		first, _ := s.Scan(line)
		first = slices.Clone(first)
		fields, err := s.Scan(line) // now all names are known and expected
		if err == nil && !slices.EqualFunc(fields, first, func(a, b feed.Field) bool {
			return a.Name == b.Name && a.Kind == b.Kind && string(a.Value) == string(b.Value)
		}) {
			t.Fatalf("%q: %v, then %v", line, first, fields)
		}
		if !bytes.Equal(before, line) {
			t.Fatal("the line was changed")
		}
		met := feed.NewScanner(&feed.Names{}) // expects what came after the names in other lines
		for _, l := range adversarial {
			_, _ = met.Scan([]byte(l))
		}
		expected, expectedErr := met.Scan(line)
		if fmt.Sprint(expectedErr) != fmt.Sprint(err) || !slices.EqualFunc(expected, fields, func(a, b feed.Field) bool {
			return met.Name(&a) == s.Name(&b) && a.Kind == b.Kind && string(a.Value) == string(b.Value)
		}) {
			t.Fatalf("%q: %v, %v after other lines, %v, %v without", line, expected, expectedErr, fields, err)
		}
		want, wantErr := strict(bytes.TrimLeft(line, feed.Marks+" \t\r\n"))
		if err != nil {
			var e *feed.Error
			if !errors.As(err, &e) || e.Detail == "" {
				t.Fatalf("%T %v", err, err)
			}
			if wantErr == nil && e.Reason != feed.TooLong && e.Reason != feed.TooDeep {
				t.Fatalf("%q: %v, but the strict parser accepts it", line, err)
			}
			return
		}
		if wantErr != nil {
			t.Fatalf("%q was accepted, but the strict parser says %v", line, wantErr)
		}
		if len(fields) != len(want) {
			t.Fatalf("%q: %d fields, want %d", line, len(fields), len(want))
		}
		for i, f := range fields {
			name := s.Name(&f)
			if name != want[i].name {
				t.Fatalf("%q: field %d is named %q, want %q", line, i, name, want[i].name)
			}
			if string(f.Value) != want[i].raw || f.Kind != want[i].kind || feed.KindOf(f.Value) != want[i].kind {
				t.Fatalf("%q: field %q is %s %q, want %s %q", line, name, f.Kind, f.Value, want[i].kind, want[i].raw)
			}
			wantText := []byte(want[i].raw)
			if f.Kind == feed.String {
				wantText, _ = jsontext.AppendUnquote(nil, want[i].raw)
			}
			if text, other := feed.AppendText(nil, f.Value, f.Kind), feed.Text(nil, f.Value, f.Kind); !bytes.Equal(text, wantText) || !bytes.Equal(other, wantText) {
				t.Fatalf("%q: field %q reads %q, %q, want %q", line, name, text, other, wantText)
			}
		}
	})
}

// strict parses one object with another parser.
func strict(line []byte) (members []step, err error) {
	steps, err := strictly(line, func(step int) bool { return step == 0 })
	switch {
	case err != nil:
		return nil, err
	case steps[0].raw != "" || line[bytes.IndexAny(line, "{[")] == '[':
		return nil, errors.New("no object")
	}
	return steps[1:], nil
}

func kindOf(v jsontext.Value) feed.Kind {
	switch v.Kind() {
	case 'n':
		return feed.Null
	case 't', 'f':
		return feed.Bool
	case '"':
		return feed.String
	case '0':
		if bytes.ContainsAny(v, ".eE") {
			return feed.Number
		}
		return feed.Int
	}
	return feed.JSON
}

// TestScan runs the cases in testdata/lines.txtar: lines that are not messages.
func TestScan(t *testing.T) {
	testcheck.GoldenLines(t, "testdata/lines.txtar", func(t *testing.T, _, line string) string {
		line = repeated.ReplaceAllStringFunc(strings.ReplaceAll(line, `\xff`, "\xff"), func(s string) string {
			n, _ := strconv.Atoi(s[2:])
			return strings.Repeat(s[:1], n)
		})
		_, err := feed.NewScanner(&feed.Names{}).Scan([]byte(line))
		e := (*feed.Error)(nil)
		if !errors.As(err, &e) {
			t.Fatal(err)
		}
		return string(e.Reason) + ": " + e.Detail
	})
}

var repeated = regexp.MustCompile(`.\*\d+`)

// TestScan_EveryTornLineIsTruncated: otherwise a torn last line would not be left for the next run.
func TestScan_EveryTornLineIsTruncated(t *testing.T) {
	for _, line := range []string{flight, `{"ä":"é😀\u00e9\ud83d\ude00\n","n":[-1.5e+3,{"x":true}],"z":null}`} {
		for i := 1; i < len(line); i++ {
			_, err := feed.NewScanner(&feed.Names{}).Scan([]byte(line[:i]))
			if e := (*feed.Error)(nil); !errors.As(err, &e) || e.Reason != feed.Truncated {
				t.Errorf("%q: %v", line[:i], err)
			}
		}
	}
}

func TestParseInt_TakesWholeNumbersOf64Bits(t *testing.T) {
	for in, want := range map[string]string{"0": "0", "-0": "none", "7": "7", "-9223372036854775808": "-9223372036854775808", "9223372036854775807": "9223372036854775807",
		"9223372036854775808": "none", "-9223372036854775809": "none", "99999999999999999999": "none", "1.0": "1", "1e3": "1000", "1.5": "none", "-0.0": "none", "9007199254740993.0": "none"} {
		k, _ := feed.IsNumber([]byte(in))
		got := "none"
		if n, ok := feed.ParseInt([]byte(in), k); ok {
			got = fmt.Sprint(n)
		}
		if got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

// TestParseReal_ExactMeansNoDigitIsLost compares with exact arithmetic.
func TestParseReal_ExactMeansNoDigitIsLost(t *testing.T) {
	for _, in := range []string{"0", "-0", "0.1", "1.50", "37.61894", "1e300", "1e-300", "5e-324", "4.9e-324", "123456789012345", "12345678901234567", "0.30000000000000004",
		"0.300000000000000044", "9007199254740993", "1e22", "1e23", "100000000000000000000", "1.7976931348623157e308", "00", "2.2250738585072014e-308"} {
		if _, ok := feed.IsNumber([]byte(in)); !ok {
			continue
		}
		f, exact, ok := feed.ParseReal([]byte(in))
		if !ok {
			t.Errorf("%s is in range", in)
		}
		a, _ := new(big.Rat).SetString(in)
		b, _ := new(big.Rat).SetString(strconv.FormatFloat(f, 'g', -1, 64))
		if exact != (a.Cmp(b) == 0) {
			t.Errorf("%s: exact is %v, the double prints as %v", in, exact, f)
		}
	}
	for _, in := range []string{"1e400", "-1e400", "1e-400"} {
		if _, _, ok := feed.ParseReal([]byte(in)); ok {
			t.Errorf("%s is in range", in)
		}
	}
}

// TestScan_OrdersOfNames: a name is recognized in every position after any others, and a feed with ever new orders
// does not make the scanner grow.
func TestScan_OrdersOfNames(t *testing.T) {
	s, r := feed.NewScanner(&feed.Names{}), rand.New(rand.NewPCG(1, 1))
	var line []byte
	scan := func(names, lines int) {
		for range lines {
			order := r.Perm(names)[:1+r.IntN(names)]
			line = append(line[:0], '{')
			for i, n := range order {
				line = fmt.Appendf(line, `%.*s"n%d"%*s:%d`, min(i, 1), ",", n, r.IntN(10)/9, "", n)
			}
			fields, err := s.Scan(append(line, '}'))
			if err != nil || len(fields) != len(order) {
				t.Fatalf("%s: %d fields, %v", line, len(fields), err)
			}
			for i := range fields {
				if s.Name(&fields[i]) != fmt.Sprint("n", order[i]) || string(fields[i].Value) != strconv.Itoa(order[i]) {
					t.Fatalf("%s: field %d is %s: %s", line, i, s.Name(&fields[i]), fields[i].Value)
				}
			}
		}
	}
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	scan(4, 2_000)
	scan(40, 2_000)
	before := heap()
	scan(40, 10_000) // 1 MB if there were no limit
	if after := heap(); after > before+1<<18 {
		t.Errorf("the heap grew from %d to %d bytes", before, after)
	}
	runtime.KeepAlive(s)
}

// TestScan_TooManyFields: the number of a line's fields is limited, and so is their memory.
func TestScan_TooManyFields(t *testing.T) {
	s := feed.NewScanner(&feed.Names{})
	line := func(n int) []byte { return []byte("{" + strings.Repeat(`"a":1,`, n-1) + `"a":1}`) }
	if fields, err := s.Scan(line(1 << 16)); err != nil || len(fields) != 1<<16 {
		t.Errorf("%d fields, %v", len(fields), err)
	}
	_, err := s.Scan(line(1<<16 + 1))
	var e *feed.Error
	if !errors.As(err, &e) || e.Reason != feed.TooLong || e.Detail != "more than 65536 fields" {
		t.Errorf("%v", err)
	}
}

// TestScan_NamesPastTheLimit: names that are too many or too long have no number, unless the program asked for one.
// The fields still have their names.
func TestScan_NamesPastTheLimit(t *testing.T) {
	var names feed.Names
	wanted := names.Number("wanted")
	first, second := feed.NewScanner(&names), feed.NewScanner(&names)
	var many strings.Builder
	for i := range 12_000 {
		fmt.Fprintf(&many, `,"n%d":%d`, i, i)
	}
	long := strings.Repeat("x", 1001)
	late := names.Number("late")
	for _, s := range []*feed.Scanner{first, second} {
		for range 2 {
			var l feed.Line
			l.Scan(s, nil, []byte(`{"`+long+`":"long"`+many.String()+`,"late":"too late","w\u0061nted":1,"`+long+`":"last","wanted":"here"}`))
			if l.Err != nil {
				t.Fatal(l.Err)
			}
			if text, ok := l.Get(wanted); !ok || string(text) != "here" {
				t.Errorf("the wanted field is %q", text)
			}
			if text, ok := l.Get(late); !ok || string(text) != "too late" {
				t.Errorf("the late field is %q", text)
			}
			if text, ok := l.Get(names.Number("absent")); ok {
				t.Errorf("the absent field is %q", text)
			}
			unnumbered := 0
			for i := range l.Fields {
				f := &l.Fields[i]
				if f.Name < 0 {
					unnumbered++
				}
				if n := i - 1; n >= 0 && n < 12_000 && (s.Name(f) != fmt.Sprintf("n%d", n) || string(f.Value) != strconv.Itoa(n)) {
					t.Fatalf("field %d is %s: %s", i, s.Name(f), f.Value)
				}
			}
			if s.Name(&l.Fields[0]) != long || l.Fields[0].Name == l.Fields[12_003].Name || unnumbered != len(l.Unnumbered) || unnumbered < 2_000 || unnumbered > 2_010 {
				t.Errorf("%d names without a number: %d", unnumbered, len(l.Unnumbered))
			}
		}
	}
}

// A step is one value of a walk.
type step struct {
	depth     int
	name, raw string
	named     bool
	kind      feed.Kind
}

// walked returns the steps through a value; into decides which objects and arrays it steps into.
func walked(value []byte, into func(step int) bool) []step {
	var steps []step
	w := feed.Walk(value)
	for w.Next() {
		s := step{depth: w.Depth, name: string(feed.AppendUnquoted(nil, w.Name)), named: w.Name != nil, kind: w.Kind}
		if w.Kind != feed.JSON || !into(len(steps)) {
			s.raw = string(w.Raw())
		}
		steps = append(steps, s)
	}
	return steps
}

// strictly returns the steps from a strict parser.
func strictly(value []byte, into func(step int) bool) (steps []step, err error) {
	d := jsontext.NewDecoder(bytes.NewReader(value), jsontext.AllowDuplicateNames(true))
	var walk func(depth int, s step) error
	walk = func(depth int, s step) error {
		s.depth = depth
		c := d.PeekKind()
		if c != '{' && c != '[' || !into(len(steps)) {
			v, err := d.ReadValue()
			s.raw, s.kind = string(v), kindOf(v)
			steps = append(steps, s)
			return err
		}
		_, err := d.ReadToken()
		s.kind = feed.JSON
		for steps = append(steps, s); err == nil && d.PeekKind() != '}' && d.PeekKind() != ']'; {
			var member step
			if c == '{' {
				var name jsontext.Token
				name, err = d.ReadToken()
				member.name, member.named = name.String(), true
			}
			if err == nil {
				err = walk(depth+1, member)
			}
		}
		if err == nil {
			_, err = d.ReadToken()
		}
		return err
	}
	if err = walk(0, step{}); err == nil {
		if _, more := d.ReadToken(); more != io.EOF {
			err = errors.New("trailing data")
		}
	}
	return steps, err
}

// FuzzWalk compares walks through values that the scanner accepts with a strict parser. skip decides which objects
// and arrays are read with Raw.
func FuzzWalk(f *testing.F) {
	for _, line := range adversarial {
		f.Add([]byte(line), uint64(0))
		f.Add([]byte(line), uint64(6))
	}
	f.Add([]byte(`{"a":[[],[[]],{"b":{},"":[1,-2.5e-3,"\\","\\\"",null,true,false,"]}"]}] , "c\n" : "d" , "e":{"f":[" :"]}}`), uint64(0b10100))
	f.Fuzz(func(t *testing.T, line []byte, skip uint64) {
		if _, err := feed.NewScanner(&feed.Names{}).Scan(line); err != nil {
			return
		}
		line = bytes.TrimLeft(line, feed.Marks+" \t\r\n")
		into := func(step int) bool { return step >= 64 || skip>>step&1 == 0 }
		got := walked(line, into)
		want, err := strictly(line, into)
		testcheck.NoError(t, err)
		for i := range max(len(got), len(want)) {
			if i >= len(got) || i >= len(want) || got[i] != want[i] {
				t.Fatalf("%q, step %d:\n%+v\nwant\n%+v", line, i, got[min(i, len(got)):], want[min(i, len(want)):])
			}
		}
	})
}
