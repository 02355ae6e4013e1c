package merge_test

import (
	"fmt"
	"math/big"
	"os"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold/merge"
	"github.com/weirsync/weir/internal/test/testcheck"
)

func TestParse(t *testing.T) {
	for f := merge.Last; f <= merge.Patch; f++ {
		got, err := merge.Parse(f.String())
		if testcheck.NoError(t, err); got != f {
			t.Errorf("%s is %s", f, got)
		}
	}
	if _, err := merge.Parse("avg"); err == nil || !strings.Contains(err.Error(), "last, first, sum, min, max, patch") {
		t.Error(err)
	}
}

func TestAppendSum(t *testing.T) {
	nines, zeros := strings.Repeat("9", 5000), strings.Repeat("0", 5000)
	for _, c := range []struct{ a, b, want string }{
		{"1", "2", "3"},
		{"-0", "0", "0"},
		{"0.0", "-0e7", "0"},
		{"0.1", "0.2", "0.3"},
		{"1.50", "1.5", "3"},
		{"0", "-1e-2", "-0.01"},
		{"-0.01", "0.010", "0"},
		{"1e3", "0", "1000"},
		{"12e-1", "-1.3", "-0.1"},
		{"999999999999999999", "1", "1000000000000000000"},
		{"9223372036854775807", "1", "9223372036854775808"},
		{"-9223372036854775808", "-9223372036854775808", "-18446744073709551616"},
		{"0.001", "-0.0009", "0.0001"},
		{nines, "1", "1" + zeros},
		{"1" + zeros, "-1", nines},
		{"1E+2", "1e-2", "100.01"},
		{"1e1000000", "1", ""},
		{"1e-1000000", "1", ""},
		{"0e99999999999999999999", "1", "1"},
		{"1e99999999999999999999", "1", ""},
		{"x", "1", ""},
		{"", "1", ""},
		{"-", "1", ""},
		{"01", "1", ""},
		{"1.", "1", ""},
		{"1e", "1", ""},
		{"1e+", "1", ""},
		{"+1", "1", ""},
		{" 1", "1", ""},
		{"NaN", "1", ""},
	} {
		got, ok := merge.AppendSum([]byte("x"), []byte(c.a), []byte(c.b))
		back, _ := merge.AppendSum([]byte("x"), []byte(c.b), []byte(c.a))
		if ok != (c.want != "") || string(got) != "x"+c.want || string(back) != string(got) {
			t.Errorf("%.50s + %.50s = %.100s, %v, want %.100s", c.a, c.b, got, ok, c.want)
		}
	}
}

// TestAppendSum_OfTheLargest: a sum may have more digits than a summand, and can still be added to.
func TestAppendSum_OfTheLargest(t *testing.T) {
	largest := []byte("9e131051")
	if !merge.IsSummand(largest) || merge.IsSummand([]byte("1e131052")) {
		t.Error("the largest summand has other digits")
	}
	sum, _ := merge.AppendNumber(nil, largest)
	for range 3 {
		var ok bool
		if sum, ok = merge.AppendSum(nil, sum, largest); !ok {
			t.Fatalf("nothing is added to %.5s of %d digits", sum, len(sum))
		}
	}
	if len(sum) != 131053 || !strings.HasPrefix(string(sum), "360") {
		t.Errorf("the sum is %.5s of %d digits", sum, len(sum))
	}
}

// FuzzAppendSum compares sums with big.Rat, and checks that each has a canonical spelling.
func FuzzAppendSum(f *testing.F) {
	for _, s := range []string{"1", "-0.5", "1e3", "1.50", "99999999999999999999", "0.1e-5", "-7E+2", "x", "00"} {
		f.Add(s, "2.5")
		f.Add("-1", s)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		_, aok := feed.IsNumber([]byte(a))
		_, bok := feed.IsNumber([]byte(b))
		got, ok := merge.AppendSum(nil, []byte(a), []byte(b))
		if !aok || !bok {
			if ok && len(a)+len(b) < 4096 {
				t.Fatalf("%s + %s = %s", a, b, got)
			}
			return
		}
		if !ok {
			if len(a)+len(b) < 1000 && !strings.ContainsAny(a+b, "eE") {
				t.Fatalf("%s + %s is refused", a, b)
			}
			return
		}
		x, xok := new(big.Rat).SetString(a)
		y, yok := new(big.Rat).SetString(b)
		if !xok || !yok { // a zero with a huge exponent
			return
		}
		digits, _ := x.Add(x, y).FloatPrec()
		if want := x.FloatString(digits); string(got) != want {
			t.Errorf("%s + %s = %s, want %s", a, b, got, want)
		}
		if again, ok := merge.AppendNumber(nil, got); !ok || string(again) != string(got) {
			t.Errorf("%s is spelled %s", got, again)
		}
	})
}

func TestAppendPatched_RFC7396(t *testing.T) {
	text, err := os.ReadFile("testdata/rfc7396.txt")
	testcheck.NoError(t, err)
	n := 0
	for line := range strings.Lines(string(text)) {
		c := strings.Split(strings.TrimSpace(line), "\t")
		if got := string(merge.AppendPatched(nil, []byte(c[0]), []byte(c[1]))); got != c[2] {
			t.Errorf("%s patched by %s is %s, want %s", c[0], c[1], got, c[2])
		}
		n++
	}
	if n != 15 {
		t.Errorf("the RFC has 15 cases, and the test %d", n)
	}
}

func TestAppendPatched(t *testing.T) {
	many := `{"m0":0`
	for i := 1; i < 40; i++ {
		many += fmt.Sprintf(`,"m%d":%d`, i, i)
	}
	many += "}"
	for _, c := range []struct{ text, patch, want string }{
		{"", `{"a":null,"b":{"c":null,"d":1}}`, `{"b":{"d":1}}`},
		{`no JSON`, `{"a":1}`, `{"a":1}`},
		{` { "b" : 1 , "a" : [ 1 ] } `, `{"a":2,"c":3}`, `{"b":1,"a":2,"c":3}`},
		{`{"a":1,"b":2}`, `{"\u0061":3}`, `{"a":3,"b":2}`},
		{`{"a":1,"a":2}`, `{}`, `{"a":2}`},
		{`{"a":1,"b":2}`, `{"a":null,"a":4}`, `{"b":2,"a":4}`}, // consecutive patches
		{many, `{"m0":null,"x":1,"m39":{"y":2}}`, strings.Replace(strings.Replace(many, `"m0":0,`, "", 1), `"m39":39}`, `"m39":{"y":2},"x":1}`, 1)},
	} {
		if got := string(merge.AppendPatched(nil, []byte(c.text), []byte(c.patch))); got != c.want {
			t.Errorf("%s patched by %s is %s, want %s", c.text, c.patch, got, c.want)
		}
	}
}

// FuzzAppendPatched: the result of a patch is a JSON object, at any depth.
func FuzzAppendPatched(f *testing.F) {
	f.Add([]byte(`{"a":{"b":1}}`), []byte(`{"a":{"b":null}}`), []byte(`{"a":{"c":[1]}}`))
	f.Add([]byte(`no`), []byte(`{"a":1,"a":{"x":1}}`), []byte(`{"a":null}`))
	f.Add([]byte(strings.Repeat(`{"a":`, 900)+"1"+strings.Repeat("}", 900)), []byte(strings.Repeat(`{"a":`, 900)+"null"+strings.Repeat("}", 900)), []byte("{}"))
	f.Fuzz(func(t *testing.T, text, p, q []byte) {
		if !feed.IsObject(p) || !feed.IsObject(q) || p[0] != '{' || q[0] != '{' {
			return
		}
		want := merge.AppendPatched(nil, merge.AppendPatched(nil, text, merge.Extend(nil, p)), merge.Extend(nil, q))
		row := merge.AppendCombined(nil, merge.Extend(merge.Extend(nil, p), q))
		got := merge.AppendPatched(nil, text, row)
		if string(got) != string(want) || !feed.IsObject(got) || !feed.IsObject(row) {
			t.Errorf("%q by %q and %q, as a sequence %q, is %q, want %q", text, p, q, row, got, want)
		}
	})
}
