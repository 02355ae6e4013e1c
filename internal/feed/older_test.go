package feed

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestOlder(t *testing.T) {
	// Each is older than the next. Numbers come before texts, even if the text sorts first byte by byte.
	for _, ordered := range [][]string{
		{"-1e99999999999999999999", "-1e400", "-1e-99999999999999999999", "0", "0.1e-99999999999999999999", "5", "12e9223372036854775807"},
		{"-1e400", "-10", "-9.5", "-9", "-0.001", "0", "1e-400", "0.5", "9", "10", "1700000000", "1700000000.5", "12345678901234567890", "12345678901234567891", "1e400"},
		{"9", "10", "2026-11-20T09:00:00Z", "2026-11-20T10:00:00Z", "", "--2", "-a", "10a", "2026-11-20T10:00:00Z1", "9a", "a"},
		{"1e9", "0001-01-01T00:00:00", "2026-11-20 10:00:00", "2026-11-20T10:00:00.000000000000000000001", "9999-12-31T23:59:59", "0001-01-01T00:00:00Z", "2026-11-20T10:00:00+02:00",
			"2026-11-20T10:00:00.5+01:59", "2026-11-20T09:00:00Z", "2026-11-20t09:00:00.49z", "2026-11-20T09:00:00.5Z", "2026-11-20 10:00:00.51+01:00", "2026-12-31T23:59:59.999Z",
			"2026-12-31T23:59:60.1Z", "2027-01-01T00:00:00.2Z", "9999-12-31T23:59:59Z", "0000-01-01T00:00:00Z", "12026-01-01T00:00:00Z", "2026-02-29T00:00:00Z", "2026-11-20", "2026-11-20T10:00:00+01", "2026-11-20T24:00:00Z"},
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
	for _, same := range [][2]string{{"1", "1.0"}, {"1e3", "1000"}, {"1", "1e0"}, {"-0", "0"}, {"007", "7"}, {"+7", "7.00"}, {"100000000000000000000", "1e20"}, {"x", "x"},
		{"2026-11-20T10:00:00Z", "2026-11-20 11:00:00.000+01:00"}, {"2026-12-31T23:59:60Z", "2027-01-01T00:00:00Z"}, {"2026-11-20 10:00:00", "2026-11-20T10:00:00.0"}} {
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
	f.Add("2026-11-20T10:00:00.5Z", "2026-11-20T10:00:00Z", "2026-11-20 11:00:00+01:00")
	f.Add("2026-11-20T10:00:00", "2026-11-20T10:00:00Z", "2026-11-20")
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

// TestOlder_AgreesWithInstants: times in any spelling compare as the points in time that they are.
func TestOlder_AgreesWithInstants(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	draw := func() (time.Time, string) {
		at := time.Unix(rnd.Int64N(4)*rnd.Int64N(1<<36), rnd.Int64N(3)*rnd.Int64N(500_000_000)).In(time.FixedZone("", 60*(rnd.IntN(2880)-1440)/10*10%86400))
		text := at.Format([]string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02T15:04:05.000000000000Z07:00"}[rnd.IntN(3)])
		return at, text
	}
	for range 100_000 {
		x, a := draw()
		y, b := draw()
		if rnd.IntN(4) == 0 { // a moment later, in another zone
			y = x.Add(time.Duration(rnd.IntN(3)-1) * time.Nanosecond).UTC()
			b = y.Format(time.RFC3339Nano)
		}
		if got := Compare([]byte(a), []byte(b)); got != x.Compare(y) {
			t.Fatalf("%s and %s: %d", a, b, got)
		}
	}
}
