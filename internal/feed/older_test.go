package feed

import "testing"

func TestOlder(t *testing.T) {
	// Each is older than the next. Numbers come before texts, even if the text sorts first byte by byte.
	for _, ordered := range [][]string{
		{"-1e99999999999999999999", "-1e400", "-1e-99999999999999999999", "0", "0.1e-99999999999999999999", "5", "12e9223372036854775807"},
		{"-1e400", "-10", "-9.5", "-9", "-0.001", "0", "1e-400", "0.5", "9", "10", "1700000000", "1700000000.5", "12345678901234567890", "12345678901234567891", "1e400"},
		{"9", "10", "", "--2", "-a", "10a", "2026-11-20T09:00:00Z", "2026-11-20T10:00:00Z", "2026-11-20T10:00:00Z1", "9a", "a"},
		{"+7", "008", "+", "1_000"}, // the first two are numbers, although not in JSON
	} {
		for i, a := range ordered {
			for j, b := range ordered {
				if got := Older([]byte(a), []byte(b)); got != (i < j) {
					t.Errorf("Older(%q, %q) = %v", a, b, got)
				}
			}
		}
	}
	for _, same := range [][2]string{{"1", "1.0"}, {"1e3", "1000"}, {"1", "1e0"}, {"-0", "0"}, {"007", "7"}, {"+7", "7.00"}, {"100000000000000000000", "1e20"}, {"x", "x"}} {
		if a, b := []byte(same[0]), []byte(same[1]); Older(a, b) || Older(b, a) {
			t.Errorf("%s and %s are not the same version", a, b)
		}
	}
}

// FuzzOlder: any two of three versions have an order, and it is transitive.
func FuzzOlder(f *testing.F) {
	f.Add("9", "10", "1a")
	f.Add("1.0", "1", "-")
	f.Add("1e400", "1e0400", "1")
	f.Add("", "+0", "-0")
	f.Fuzz(func(t *testing.T, x, y, z string) {
		a, b, c := []byte(x), []byte(y), []byte(z)
		if Older(a, a) || Older(a, b) && Older(b, a) {
			t.Errorf("%q and %q are each older than the other", a, b)
		}
		if !Older(b, a) && !Older(c, b) && Older(c, a) {
			t.Errorf("%q, %q and %q have no order", a, b, c)
		}
	})
}
