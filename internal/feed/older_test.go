package feed

import "testing"

func TestOlder(t *testing.T) {
	// Each is older than the next.
	for _, ordered := range [][]string{
		{"-1e99999999999999999999", "-1e400", "-1e-99999999999999999999", "0", "0.1e-99999999999999999999", "5", "12e9223372036854775807"},
		{"-1e400", "-10", "-9.5", "-9", "-0.001", "0", "1e-400", "0.5", "9", "10", "1700000000", "1700000000.5", "12345678901234567890", "12345678901234567891", "1e400"},
		{"", "2026-11-20T09:00:00Z", "2026-11-20T10:00:00Z", "2026-11-20T10:00:00Z1"},
		{"10a", "9a", "a"},
		{"10", "9a"},  // one is no number
		{"+7", "008"}, // numbers, though JSON writes them otherwise
		{"--2", "-a", "1"},
	} {
		for i, a := range ordered {
			for j, b := range ordered {
				if got := Older([]byte(a), []byte(b)); got != (i < j) {
					t.Errorf("Older(%q, %q) = %v", a, b, got)
				}
			}
		}
	}
	for _, same := range [][2]string{{"1", "1.0"}, {"1e3", "1000"}, {"-0", "0"}, {"007", "7"}, {"+7", "7.00"}, {"x", "x"}} {
		if a, b := []byte(same[0]), []byte(same[1]); Older(a, b) || Older(b, a) {
			t.Errorf("%s and %s are not the same version", a, b)
		}
	}
}
